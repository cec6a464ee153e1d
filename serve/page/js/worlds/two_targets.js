// Benchmark 3: find out which of two targets is the good one. Mirrors nmn_keras/envs/dynamics/two_targets.py.
// A task is [a1, a2, a3, a4, a5]: the centres of the two targets, and 1 if the first is the good one, else -1.

import { centred } from "./numbers.js";
import { difference, direction, distance, MOVE, spawn, TARGET_RADIUS, TARGET_REACH, wrap } from "./plane.js";

export const twoTargets = {
  envId: "nmn_keras/TwoTargets-v0",
  goodReward: 100,
  badReward: -50,
  stepReward: 0,
  draws: { task: 5, start: 2, step: 2 },
  taskBounds: { low: [...Array(4).fill(-TARGET_REACH), -1], high: [...Array(4).fill(TARGET_REACH), 1] },

  task(draws) {
    return [...draws.slice(0, 4).map((draw) => centred(draw, TARGET_REACH)), draws[4] < 0.5 ? -1 : 1];
  },

  targets(task) {
    return [task.slice(0, 2), task.slice(2, 4)];
  },

  start(task, draws) {
    return spawn(draws);
  },

  observation(position, task) {
    return this.targets(task).flatMap((centre) => difference(centre, position));
  },

  inTarget(position, task) {
    return this.targets(task).some((centre) => distance(position, centre) <= TARGET_RADIUS);
  },

  /** In both targets the nearer centre counts. */
  reward(position, task) {
    if (!this.inTarget(position, task)) return this.stepReward;
    const [first, second] = this.targets(task).map((centre) => distance(position, centre));
    return first <= second === task[4] > 0 ? this.goodReward : this.badReward;
  },

  /** The reward is for where the agent is before the move. In a target it appears elsewhere, whatever the action. */
  step(position, task, action, draws) {
    const reward = this.reward(position, task);
    if (this.inTarget(position, task)) return { position: this.start(task, draws), reward };
    const own = direction(action[0]);
    return { position: wrap(position.map((x, i) => x + MOVE * own[i])), reward };
  },
};
