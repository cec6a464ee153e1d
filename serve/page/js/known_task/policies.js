// What who knows the task does: look one move ahead with a plan, or, without one, fly straight.

import { direction, distance, MOVE, REACH, TARGET_RADIUS } from "../worlds/plane.js";
import { modulo } from "../worlds/numbers.js";
import { emptyPadded, interpolate, pad } from "./grid.js";
import { ACTIONS, DISCOUNT, moveOf } from "./solve.js";

const MOVES = ACTIONS.map(moveOf);
/** More moves than any way on the torus takes. */
const MANY = 40;

/**
 * Optimal control with the values that `solve` found, as a function from a position to an action. It sees farther than
 * the grid where the exact dynamics are at hand: in benchmark 3 whether a move ends in a target.
 */
export function lookAhead(world, { task, ahead, after }) {
  const windy = world.cone !== undefined;
  const padded = pad(windy ? ahead : after, emptyPadded());
  const far = (arrival) => interpolate(padded, arrival);
  const near = (arrival) => {
    const reward = world.reward(arrival, task); // across an edge there is no target
    return reward + (reward === world.stepReward ? DISCOUNT * far(arrival) : 0);
  };
  return (position) => {
    const judge = !windy && nearTarget(world, task, position) ? near : far;
    const worths = MOVES.map((move) => judge(shifted(position, move)));
    return ACTIONS[worths.indexOf(Math.max(...worths))];
  };
}

/**
 * The straight way to the good target, around the edges if that is nearer, against the mean wind: after k moves the
 * target is reached if it is no farther than its radius and k moves from where the wind alone leads. Beside the bad
 * target the turn is the smallest that does not end in it.
 */
export function flyStraight(world, task, position) {
  const wanted = aim(position, goodTarget(world, task), meanWind(world, task));
  const turns = ACTIONS.map((action) => Math.abs(modulo(action - wanted + 1, 2) - 1));
  if (nearTarget(world, task, position)) {
    MOVES.forEach((move, index) => {
      if (world.reward(shifted(position, move), task) < world.stepReward) turns[index] += 2;
    });
  }
  return ACTIONS[turns.indexOf(Math.min(...turns))];
}

/** Whether a move can end in a target. */
function nearTarget(world, task, position) {
  return world.targets(task).some((centre) => distance(position, centre) <= TARGET_RADIUS + 1.01 * MOVE);
}

function aim(position, target, wind) {
  for (let moves = 1; ; moves += 1) {
    const way = target.map((x, i) => modulo(x - position[i] - moves * wind[i] + REACH, 2 * REACH) - REACH);
    if (Math.hypot(...way) <= TARGET_RADIUS + MOVE * moves || moves === MANY) return Math.atan2(...way) / Math.PI;
  }
}

function goodTarget(world, task) {
  const [first, second] = world.targets(task);
  return task[4] < 0 ? second : first;
}

/** The mean over the cone is shorter than any wind in it. */
function meanWind({ cone }, task) {
  return cone === undefined ? [0, 0] : direction(task[2] / Math.PI).map((x) => (MOVE * x * Math.sin(cone)) / cone);
}

function shifted(position, move) {
  return [position[0] + move[0], position[1] + move[1]];
}
