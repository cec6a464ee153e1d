// The player of benchmarks 2 and 3 that knows the task. Its plan of a task is worked out by a worker; until it is there
// the player flies straight, which earns nearly as much.

import { flyStraight, lookAhead } from "./policies.js";

/** Milliseconds after which it is said that a plan is being worked out. */
const NOTICEABLE = 400;
/** Milliseconds that the timer for it comes later: timers may go off a little early, and what is not yet said then never is. */
const MARGIN = 20;

/** An actor like those of the server, but told the task: by `foresee` as soon as it is there, and at each step. */
export class KnownTaskPlayer {
  #world;
  #onNews;
  #worker = null;
  #task = null;
  #asked = null;
  /** When it was last without a plan first. */
  #since = 0;
  #plan = null;
  #choose = null;
  #failed = false;

  /** `onNews` is called when `news` changes, other than by a step. */
  constructor(world, onNews) {
    this.#world = world;
    this.#onNews = onNews;
  }

  async open() {
    this.#worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    this.#worker.addEventListener("message", ({ data }) => this.#receive(data));
    this.#worker.addEventListener("error", () => this.#fail());
    this.#worker.addEventListener("messageerror", () => this.#fail());
  }

  /** There is nothing to forget: all that it knows is the task. */
  async reset() {}

  /** The task is, or is about to become, this one. */
  foresee(task) {
    if (task === this.#task) return;
    if (this.#task === null || this.#ready) this.#since = performance.now();
    this.#task = task;
    if (this.#asked === null) this.#ask();
  }

  async step(observation, reward, task) {
    this.foresee(task);
    const position = this.#world.targets(task)[0].map((x, i) => x - observation[i]);
    const action = this.#ready ? this.#choose(position) : flyStraight(this.#world, task, position);
    return { action: [action] };
  }

  /** How it stands with the plan, as the end of a sentence; empty where there is nothing to say. */
  get news() {
    if (this.#ready) return `expects ${rounded(this.#plan.perStep)} per step of this task`;
    if (this.#failed) return "cannot work out a plan in this browser and flies straight";
    return performance.now() - this.#since < NOTICEABLE ? "" : "is working out its plan and flies straight meanwhile";
  }

  close() {
    this.#worker?.terminate();
    this.#worker = null;
  }

  get #ready() {
    return this.#plan !== null && same(this.#plan.task, this.#task);
  }

  /** One plan at a time; of the tasks that come meanwhile only the last is of interest. */
  #ask() {
    if (this.#worker === null || this.#failed || this.#ready) return;
    this.#asked = this.#task;
    this.#worker.postMessage({ envId: this.#world.envId, task: this.#task });
    setTimeout(() => this.#onNews(), NOTICEABLE + MARGIN);
  }

  #receive(plan) {
    this.#asked = null;
    this.#plan = plan;
    this.#choose = lookAhead(this.#world, plan);
    this.#ask();
    this.#onNews();
  }

  #fail() {
    this.#failed = true;
    this.#onNews();
  }
}

function rounded(number) {
  return (Math.round(10 * number) / 10 || 0).toFixed(1); // no minus before a zero
}

function same(one, other) {
  return one.every((x, i) => x === other[i]);
}
