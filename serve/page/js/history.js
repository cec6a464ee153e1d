// The last steps as the charts show them.

import { gainsOf } from "./modulation.js";

/** The tick of a step in which something fell. */
const FELL = -1;
/** Steps that a chart shows at once. */
export const WINDOW = 400;

export class History {
  #sums;

  /** `averaged` is how many rewards a running mean is over; `kept` is what `keep` of a history before gave. */
  constructor(actors, averaged, kept = null) {
    this.averaged = averaged;
    this.steps = kept?.steps ?? [];
    this.#sums = kept?.sums ?? actors.map(() => []);
    this.tracks = actors.map(({ layers }, index) => {
      const track = kept?.tracks[index] ?? { rewards: [], means: [], signals: [] };
      return { ...track, gains: track.signals.map((z) => gains(z, layers)) };
    });
  }

  /** What another history needs to go on. Gains follow from signals. */
  keep() {
    const shortened = (z) => z && z.map((x) => Number(x.toPrecision(5)));
    const tracks = this.tracks.map(({ rewards, means, signals }) => ({
      rewards,
      means,
      signals: signals.map(shortened),
    }));
    return { steps: this.steps, sums: this.#sums, tracks };
  }

  add(step, actors) {
    append(this.steps, step, WINDOW);
    actors.forEach(({ last, layers }, index) => {
      const track = this.tracks[index];
      const recent = this.#sums[index];
      append(recent, last.shown, this.averaged);
      append(track.rewards, last.ended ? FELL : last.reward, WINDOW);
      append(track.means, recent.reduce((sum, reward) => sum + reward, 0) / recent.length, WINDOW);
      append(track.signals, last.z, WINDOW);
      append(track.gains, gains(last.z, layers), WINDOW);
    });
  }

  /** The running mean of an actor's reward, null before the first step. */
  mean(index) {
    return this.tracks[index].means.at(-1) ?? null;
  }
}

function gains(z, layers) {
  return z && layers.map((layer) => gainsOf(layer, z));
}

function append(list, value, longest) {
  list.push(value);
  if (list.length > longest) list.shift();
}
