// Benchmark 2: navigate to a target in an unknown wind. Mirrors nmn_keras/envs/dynamics/windy_navigation.py.
// A task is [a1, a2, a3]: the target's centre and the wind's main direction in radians.

import { centred } from "./numbers.js";
import { difference, direction, distance, MOVE, spawn, TARGET_RADIUS, TARGET_REACH, wrap } from "./plane.js";

export const windyNavigation = {
  envId: "nmn_keras/WindyNavigation-v0",
  /** The wind blows uniformly within this angle of its main direction. */
  cone: Math.PI / 4,
  targetReward: 100,
  stepReward: -2,
  draws: { task: 3, start: 2, step: 3 },
  taskBounds: { low: [-TARGET_REACH, -TARGET_REACH, -Math.PI], high: [TARGET_REACH, TARGET_REACH, Math.PI] },

  task(draws) {
    return [centred(draws[0], TARGET_REACH), centred(draws[1], TARGET_REACH), centred(draws[2], Math.PI)];
  },

  targets(task) {
    return [task.slice(0, 2)];
  },

  start(task, draws) {
    return spawn(draws);
  },

  observation(position, task) {
    return difference(task, position);
  },

  inTarget(position, task) {
    return distance(position, task) <= TARGET_RADIUS;
  },

  reward(position, task) {
    return this.inTarget(position, task) ? this.targetReward : this.stepReward;
  },

  /** The reward is for where the agent is before the move. In the target it appears elsewhere, whatever the action. */
  step(position, task, action, draws) {
    if (this.inTarget(position, task)) {
      return { position: this.start(task, draws.slice(1)), reward: this.targetReward };
    }
    const own = direction(action[0]);
    const wind = direction((task[2] + centred(draws[0], this.cone)) / Math.PI);
    return { position: wrap(position.map((x, i) => x + MOVE * (own[i] + wind[i]))), reward: this.stepReward };
  },
};
