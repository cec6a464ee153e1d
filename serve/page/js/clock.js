// Play, pause and speed: calls an asynchronous step at a rate, or as fast as it goes.

/** Steps per second; the last is as fast as the server answers. */
export const SPEEDS = [1, 2, 5, 10, 30, 60, Infinity];
/** Milliseconds after which the browser gets a turn, however fast steps come. */
const PATIENCE = 30;

export class Clock {
  #step;
  #run = 0;
  #playing = false;
  #onChange;

  /** `step` returns a promise; `onChange` is called with whether it plays. */
  constructor(step, onChange) {
    this.#step = step;
    this.#onChange = onChange;
    this.speed = 5;
  }

  get playing() {
    return this.#playing;
  }

  pause() {
    this.#run += 1;
    this.#set(false);
  }

  async play() {
    this.#run += 1;
    this.#set(true);
    const run = this.#run;
    let rested = performance.now();
    while (run === this.#run) {
      const due = performance.now() + 1000 / this.speed;
      await this.#step();
      if (document.hidden) await visible();
      const early = due - performance.now();
      if (early > 0) await sleep(early);
      else if (performance.now() - rested > PATIENCE) await sleep(0);
      else continue;
      rested = performance.now();
    }
  }

  #set(playing) {
    if (playing === this.#playing) return;
    this.#playing = playing;
    this.#onChange(playing);
  }
}

function sleep(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** Nobody looks at a hidden page: nothing happens on it. */
function visible() {
  return new Promise((resolve) => {
    const check = () => {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", check);
      resolve();
    };
    document.addEventListener("visibilitychange", check);
  });
}
