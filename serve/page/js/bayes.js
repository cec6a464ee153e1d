// The Bayes-optimal player of benchmark 1. Mirrors nmn_keras.baselines.BayesOptimalPolicy, where the theory is told.

import { clip } from "./worlds/numbers.js";

const DISCOUNT = 0.998;
const ALPHA_MAX = 10;
const ACTION_MAX = 20;
/** How far inside the edge of the goal the second guess lands. */
const EDGE = 1e-4;

/** An actor like those of the server: `step` takes an observation and the reward of the step before. */
export class BayesPlayer {
  constructor(kept = null) {
    this.memory = kept;
  }

  async open() {}

  async reset() {
    this.memory = null;
  }

  async step(observation, reward) {
    return { action: [this.play(observation[0], reward)] };
  }

  keep() {
    return this.memory;
  }

  close() {}

  play(seen, reward) {
    const guess = (DISCOUNT * (ALPHA_MAX + 4.5)) / (1 + DISCOUNT);
    const belief = this.memory === null ? [guess, guess, 1] : this.#learn(reward);
    const [believed, other, side] = belief;
    const aim = believed + (believed === other ? 0 : side * (1 - EDGE));
    const action = clip(seen + aim, -ACTION_MAX, ACTION_MAX);
    this.memory = { seen, action, believed, other };
    return action;
  }

  /** The bias believed, the other candidate (the same if there is none), and the side that it is on. */
  #learn(reward) {
    const { seen, action, believed, other } = this.memory;
    const played = action - seen;
    const side = played >= 0 ? 1 : -1;
    if (reward > 0) return [believed, believed, side];
    if (believed !== other) return [other, other, side];
    const near = played - side * Math.abs(reward);
    const far = played + side * Math.abs(reward);
    return [near, Math.abs(far) <= ALPHA_MAX + EDGE ? far : near, side];
  }
}
