// The last steps as the charts show them.

import { gainsOf } from "./modulation.js";

/** Steps that a chart shows at once. */
export const WINDOW = 400;

export class History {
  #sums;

  /** `averaged` is how many rewards a running mean is over. */
  constructor(actors, averaged) {
    this.averaged = averaged;
    this.steps = [];
    this.tracks = actors.map(() => ({ rewards: [], means: [], signals: [], gains: [] }));
    this.#sums = actors.map(() => []);
  }

  add(step, actors) {
    append(this.steps, step, WINDOW);
    actors.forEach(({ last, layers }, index) => {
      const track = this.tracks[index];
      const recent = this.#sums[index];
      append(recent, last.reward, this.averaged);
      append(track.rewards, last.reward, WINDOW);
      append(track.means, recent.reduce((sum, reward) => sum + reward, 0) / recent.length, WINDOW);
      append(track.signals, last.z, WINDOW);
      append(track.gains, last.z && layers.map((layer) => gainsOf(layer, last.z)), WINDOW);
    });
  }

  /** The running mean of an actor's reward, null before the first step. */
  mean(index) {
    return this.tracks[index].means.at(-1) ?? null;
  }
}

function append(list, value, longest) {
  list.push(value);
  if (list.length > longest) list.shift();
}
