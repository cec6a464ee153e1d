// Rewards that float up from where they were earned, and fade. Who wants less motion sees them stand and fade.

import { write } from "./canvas.js";

const LIFE = 1100;
const RISE = 46;
const MOST = 8;
const calm = matchMedia("(prefers-reduced-motion: reduce)");

export class Floaters {
  #alive = [];

  /** `point` is in the view's own units, which its `toPixels` takes. */
  add(text, point, colour, size = 16) {
    this.#alive = [...this.#alive, { text, point, colour, size, born: performance.now() }].slice(-MOST);
  }

  /** Whether there is anything left to move. */
  get busy() {
    return this.#alive.length > 0;
  }

  draw(context, toPixels, backing) {
    const now = performance.now();
    this.#alive = this.#alive.filter(({ born }) => now - born < LIFE);
    for (const { text, point, colour, size, born } of this.#alive) {
      const age = (now - born) / LIFE;
      const [x, y] = toPixels(point);
      context.globalAlpha = 1 - age ** 2;
      write(context, text, [x, y - 20 - (calm.matches ? 0 : RISE * age)], { colour, size, weight: 700, backing });
      context.globalAlpha = 1;
    }
  }
}

/** A reward as people write it: +100, −2.35. */
export function signed(reward) {
  const size = Math.abs(reward).toFixed(Number.isInteger(reward) ? 0 : 2);
  const sign = reward > 0 ? "+" : "−";
  return Number(size) === 0 ? size : sign + size;
}
