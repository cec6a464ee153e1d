// Hidden physics: Gymnasium's Pendulum-v1, whose length and motor the visitor changes. Mirrors
// gymnasium.envs.classic_control.PendulumEnv. A position is [theta, angular velocity], theta 0 being upright; a task the
// attributes [l, m, g, max_torque]. Random numbers on [0, 1) come in as `draws`.

import { centred, clip, modulo } from "./numbers.js";
import { taskOf } from "./parameters.js";

const TIME_STEP = 0.05;
const MAX_SPEED = 8;
/** What a motor can do at most: the bound of the actions. */
const STRONGEST = 2;
const ATTRIBUTES = [
  { name: "l", usual: 1, hidden: [0.6, 1.4] },
  { name: "m", usual: 1 },
  { name: "g", usual: 10 },
  { name: "max_torque", usual: STRONGEST, hidden: [1, 2] },
];

/** The world of an agent whose environment draws `parameters`, attributes by name; null if one of them is not known here. */
export function pendulum(parameters) {
  const physics = taskOf(ATTRIBUTES, parameters);
  return physics && { ...WORLD, ...physics };
}

const WORLD = {
  envId: "Pendulum-v1",
  view: "pendulum",
  observationSize: 3,
  choices: null,
  draws: { task: ATTRIBUTES.length, start: 2, step: 0 },
  /** Bounds of what a visitor may set. */
  taskBounds: { low: [0.3, 0.3, 1, 0.1], high: [1.6, 2, 15, STRONGEST] },

  /** Hanging or standing anywhere, turning slowly. */
  start(task, draws) {
    return [centred(draws[0], Math.PI), centred(draws[1], 1)];
  },

  observation([theta, speed]) {
    return [Math.cos(theta), Math.sin(theta), speed];
  },

  torque(action, [, , , maxTorque]) {
    return clip(action[0], -maxTorque, maxTorque);
  },

  step([theta, speed], task, action) {
    const [l, m, g] = task;
    const torque = this.torque(action, task);
    const cost = normalised(theta) ** 2 + 0.1 * speed ** 2 + 0.001 * torque ** 2;
    const pushed = speed + (((3 * g) / (2 * l)) * Math.sin(theta) + (3 / (m * l ** 2)) * torque) * TIME_STEP;
    const faster = clip(pushed, -MAX_SPEED, MAX_SPEED);
    return { position: [theta + faster * TIME_STEP, faster], reward: -cost };
  },
};

/** An angle on [-pi, pi). */
export function normalised(angle) {
  return modulo(angle + Math.PI, 2 * Math.PI) - Math.PI;
}
