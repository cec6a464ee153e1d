// Values of benchmarks 2 and 3 for who knows the task, by relative value iteration. Mirrors nmn_keras.known_task.solve,
// where the theory and the equations are told: same grid, same directions, same bounds on the error.

import { direction, distance, MOVE, SPAWN_REACH, TARGET_RADIUS } from "../worlds/plane.js";
import { centred } from "../worlds/numbers.js";
import { average, CELLS, coordinate, emptyPadded, emptyTable, greatest, pad, shiftsOf } from "./grid.js";

export const DISCOUNT = 0.998;
/** Directions that a policy searches, as actions in half-turns; values are found with every other one. */
export const ACTIONS = Array.from({ length: 96 }, (_, index) => (2 * index) / 96 - 1);
/** Directions that the wind of benchmark 2 is averaged over. */
const WINDS = 15;
/** Largest error of a value, of thousands, when iteration ends. */
const TOLERANCE = 1;
/** Points on each side of a cell whose mean is its reward and its share in a target. */
const SUBCELLS = 4;
const MAX_SWEEPS = 5000;

/**
 * Optimal values of a task, all relative to that of appearing somewhere: `ahead` of moving into each cell, before the
 * wind blows, `after` of what follows a move from each cell, were it in no target. `perStep` is what the plan expects
 * to earn per step. `guess` is the `after` of a similar task.
 */
export function solve(world, task, guess = null) {
  const { reward, inside } = rewards(world, task);
  const appearing = appearance();
  const winds = shiftsOf(windsOf(world, task));
  const moves = shiftsOf(ACTIONS.filter((_, index) => index % 2 === 0).map(moveOf));
  const [value, ahead, best, padded] = [emptyTable(), emptyTable(), emptyTable(), emptyPadded()];
  const after = guess ? guess.slice() : emptyTable();
  for (let sweeps = 1; sweeps <= MAX_SWEEPS; sweeps += 1) {
    for (let cell = 0; cell < value.length; cell += 1) {
      value[cell] = reward[cell] + DISCOUNT * (1 - inside[cell]) * after[cell];
    }
    average(pad(value, padded), winds, ahead);
    greatest(pad(ahead, padded), moves, best);
    const gain = value.reduce((sum, worth, cell) => sum + appearing[cell] * worth, 0);
    const error = (DISCOUNT / (1 - DISCOUNT)) * settle(after, best, gain);
    if (error < TOLERANCE) return { task, ahead: ahead.map((worth) => worth - gain), after, perStep: gain, sweeps };
  }
  throw new Error(`The values of task ${task} do not settle.`);
}

/** What an action moves an agent by. */
export function moveOf(action) {
  return direction(action).map((x) => MOVE * x);
}

/** Make `after` what it is after a sweep. Gives by how much more some values changed than others, or than nothing. */
function settle(after, best, gain) {
  let [most, least] = [0, 0];
  for (let cell = 0; cell < after.length; cell += 1) {
    const change = best[cell] - gain - after[cell];
    after[cell] += change;
    if (change > most) most = change;
    if (change < least) least = change;
  }
  return most - least;
}

/** Equally likely displacements by the wind; none in benchmark 3. */
function windsOf({ cone }, task) {
  if (cone === undefined) return [[0, 0]];
  const draws = Array.from({ length: WINDS }, (_, index) => (index + 0.5) / WINDS);
  return draws.map((draw) => moveOf((task[2] + centred(draw, cone)) / Math.PI));
}

/** Mean reward and share in a target of each cell. */
function rewards(world, task) {
  const [reward, inside] = [emptyTable().fill(world.stepReward), emptyTable()];
  const reach = TARGET_RADIUS + 2 * Math.SQRT1_2 * (coordinate(1) - coordinate(0));
  const centres = world.targets(task);
  for (let cell = 0; cell < reward.length; cell += 1) {
    const middle = [coordinate(Math.floor(cell / CELLS)), coordinate(cell % CELLS)];
    if (centres.every((centre) => distance(middle, centre) > reach)) continue;
    const points = pointsOf(cell);
    reward[cell] = mean(points.map((point) => world.reward(point, task)));
    inside[cell] = mean(points.map((point) => Number(world.inTarget(point, task))));
  }
  return { reward, inside };
}

/** The probability that an agent appears in each cell. */
function appearance() {
  const share = emptyTable().map((_, cell) =>
    mean(pointsOf(cell).map((point) => Number(point.every((x) => Math.abs(x) <= SPAWN_REACH)))),
  );
  const total = share.reduce((sum, part) => sum + part, 0);
  return share.map((part) => part / total);
}

/** Points all over a cell. */
function pointsOf(cell) {
  const [row, column] = [Math.floor(cell / CELLS), cell % CELLS];
  const parts = Array.from({ length: SUBCELLS }, (_, index) => (index + 0.5) / SUBCELLS - 0.5);
  return parts.flatMap((down) => parts.map((right) => [coordinate(row + down), coordinate(column + right)]));
}

function mean(numbers) {
  return numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
}
