// Benchmark 1: hit a goal of which a biased reading is seen. Mirrors nmn_keras/envs/dynamics/moving_target.py.
// A position is the observed point [x], a task the hidden bias [alpha]; random numbers on [0, 1) come in as `draws`.

import { centred, clip } from "./numbers.js";

export const movingTarget = {
  envId: "nmn_keras/MovingTarget-v0",
  alphaMax: 10,
  observationMax: 5,
  actionMax: 20,
  hitRadius: 1,
  hitReward: 10,
  /** How many uniform numbers `task`, `start` and `step` take. */
  draws: { task: 1, start: 1, step: 1 },
  taskBounds: { low: [-10], high: [10] },

  task(draws) {
    return [centred(draws[0], this.alphaMax)];
  },

  start(task, draws) {
    return [centred(draws[0], this.observationMax)];
  },

  observation(position) {
    return [...position];
  },

  goal(position, task) {
    return position[0] - task[0];
  },

  /** Play an action: the next position and the reward. After a hit x is drawn anew, after a miss it stays. */
  step(position, task, action, draws) {
    const distance = Math.abs(clip(action[0], -this.actionMax, this.actionMax) - this.goal(position, task));
    const hit = distance < this.hitRadius;
    return {
      position: hit ? this.start(task, draws) : [...position],
      reward: hit ? this.hitReward : -distance,
    };
  },
};
