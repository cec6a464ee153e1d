// One run: a world's task, the actors that face it, and what a visitor does to them.

import { drawsAt } from "./draws.js";
import { History } from "./history.js";

export class Experiment {
  #seed;
  #drawn = 0;
  #queue = Promise.resolve();

  /** `kept` is what `keep` of an experiment before gave; its actors have to be kept ones too. */
  constructor({ world, actors, seed, averaged, kept = null }) {
    Object.assign(this, { world, actors });
    this.#seed = kept?.seed ?? seed;
    this.#drawn = kept?.drawn ?? 0;
    this.steps = kept?.steps ?? 0;
    this.marks = kept?.marks ?? [];
    this.history = new History(actors, averaged, kept?.history);
    this.#face(kept?.task ?? world.task(this.#draw(world.draws.task)));
    if (!kept) this.#place();
  }

  /** What another experiment needs to go on where this one is, also in the middle of a step. */
  keep() {
    const { steps, marks, task } = this;
    const actors = this.actors.map((actor) => actor.keep());
    return { seed: this.#seed, drawn: this.#drawn, steps, marks, task, actors, history: this.history.keep() };
  }

  get locked() {
    return this.actors.some((actor) => actor.locked);
  }

  /** Every actor decides, then all play with the same random numbers. */
  step() {
    return this.#inTurn(async () => {
      const task = this.task;
      await Promise.all(this.actors.map((actor) => actor.decide(task)));
      const draws = this.#draw(this.world.draws.step);
      for (const actor of this.actors) actor.play(draws);
      this.steps += 1;
      this.history.add(this.steps, this.actors);
    });
  }

  /** Change the task in mid-episode: nobody moves, and no agent is told. Without words it is not marked. */
  setTask(task, words = "") {
    this.#face(task);
    if (words) this.mark(words);
  }

  newTask() {
    this.setTask(this.world.task(this.#draw(this.world.draws.task)), "new task");
  }

  /** World and memories begin anew, as in training. */
  newEpisode() {
    return this.#inTurn(async () => {
      await this.#forget();
      this.#face(this.world.task(this.#draw(this.world.draws.task)));
      this.#place();
      this.mark("new episode");
    });
  }

  resetMemory() {
    return this.#inTurn(async () => {
      await this.#forget();
      this.mark("memory reset");
    });
  }

  /** Freeze or free the signal of those that have one. */
  setLocked(locked) {
    return this.#inTurn(async () => {
      const modulated = this.actors.filter((actor) => actor.kind === "nmn");
      await Promise.all(modulated.map((actor) => (locked ? actor.agent.lock() : actor.agent.unlock())));
      for (const actor of modulated) actor.locked = locked;
      this.mark(locked ? "z frozen" : "z freed");
    });
  }

  /** What stands on the charts: something was done before the next step. */
  mark(text) {
    this.marks.push({ step: this.steps + 0.5, text });
  }

  async #forget() {
    await Promise.all(this.actors.map((actor) => actor.agent.reset()));
    for (const actor of this.actors) actor.forget();
  }

  #face(task) {
    this.task = task;
    for (const actor of this.actors) actor.foresee(task);
  }

  #place() {
    const draws = this.#draw(this.world.draws.start);
    for (const actor of this.actors) actor.begin(this.world.start(this.task, draws));
  }

  #draw(count) {
    this.#drawn += 1;
    return drawsAt(this.#seed, this.#drawn, count);
  }

  /** Steps and changes of memories wait for each other. */
  #inTurn(act) {
    const turn = this.#queue.then(act);
    this.#queue = turn.catch(() => {});
    return turn;
  }
}
