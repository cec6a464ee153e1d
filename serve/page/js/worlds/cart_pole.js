// Hidden physics: Gymnasium's CartPole-v1, whose pole and motor the visitor changes. Mirrors
// gymnasium.envs.classic_control.CartPoleEnv. A position is [x, its velocity, theta, its velocity, steps since the pole
// fell last]; a task the attributes [length, masscart, masspole, force_mag], length being half the pole's.

import { centred } from "./numbers.js";
import { taskOf } from "./parameters.js";

const GRAVITY = 9.8;
const TIME_STEP = 0.02;
const ATTRIBUTES = [
  { name: "length", usual: 0.5, hidden: [0.25, 1] },
  { name: "masscart", usual: 1 },
  { name: "masspole", usual: 0.1 },
  { name: "force_mag", usual: 10, hidden: [5, 15] },
];

/** The world of an agent whose environment draws `parameters`, attributes by name; null if one of them is not known here. */
export function cartPole(parameters) {
  const physics = taskOf(ATTRIBUTES, parameters);
  return physics && { ...WORLD, ...physics };
}

const WORLD = {
  envId: "CartPole-v1",
  view: "cart-pole",
  observationSize: 4,
  choices: 2,
  stepReward: 1,
  /** The cart stays within it, the pole within an angle, or the pole falls. */
  xMax: 2.4,
  thetaMax: (12 * 2 * Math.PI) / 360,
  draws: { task: ATTRIBUTES.length, start: 4, step: 4 },
  taskBounds: { low: [0.1, 0.2, 0.02, 1], high: [1.5, 3, 1, 30] },

  start(task, draws) {
    return [...draws.slice(0, 4).map((draw) => centred(draw, 0.05)), 0];
  },

  observation(position) {
    return position.slice(0, 4);
  },

  force(action, [, , , strength]) {
    return action[0] === 1 ? strength : -strength;
  },

  /** A pole that falls is put up again: in training an episode would end there. `ended` says so. */
  step(position, task, action, draws) {
    const moved = this.move(position, task, this.force(action, task));
    const ended = Math.abs(moved[0]) > this.xMax || Math.abs(moved[2]) > this.thetaMax;
    const balanced = position[4] + 1;
    return { position: ended ? this.start(task, draws) : [...moved, balanced], reward: 1, ended, shown: ended ? 0 : balanced };
  },

  /** Euler's method, as there. */
  move([x, speed, theta, turn], [length, cart, pole], force) {
    const total = cart + pole;
    const [cos, sin] = [Math.cos(theta), Math.sin(theta)];
    const pushed = (force + pole * length * turn ** 2 * sin) / total;
    const turning = (GRAVITY * sin - cos * pushed) / (length * (4 / 3 - (pole * cos ** 2) / total));
    const driven = pushed - (pole * length * turning * cos) / total;
    return [x + TIME_STEP * speed, speed + TIME_STEP * driven, theta + TIME_STEP * turn, turn + TIME_STEP * turning];
  },
};
