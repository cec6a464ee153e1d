// A player in its own copy of a world: where it is, what it did last, where it came from.

/** How many past positions a picture shows. */
const TRACE = 24;

export class Actor {
  #asked = null;
  #decided = null;

  /**
   * `agent` has `step(observation, reward, task)`, of which only a player that knows the task looks at the last. `kept`
   * is what `keep` of an actor before gave.
   */
  constructor({ name, kind, world, agent, layers = [], kept = null }) {
    Object.assign(this, { name, kind, world, agent, layers });
    this.reward = null;
    this.locked = false;
    if (!kept) return;
    const { asked, decided, position, last, trace, reward, locked } = kept;
    [this.#asked, this.#decided] = [asked, decided];
    Object.assign(this, { position, last, trace, reward, locked });
  }

  /** What another actor needs to go on. */
  keep() {
    const { position, last, trace, reward, locked, name } = this;
    const agent = this.agent.keep?.() ?? null;
    return { name, asked: this.#asked, decided: this.#decided, position, last, trace, reward, locked, agent };
  }

  /** Appear at a position; nothing has been played there. */
  begin(position) {
    this.position = position;
    this.last = null;
    this.trace = [];
    [this.#asked, this.#decided] = [null, null];
  }

  /** The agent's memory is empty again: for it the next step is the first. */
  forget() {
    this.reward = null;
    this.locked = false;
    [this.#asked, this.#decided] = [null, null];
  }

  /** Tell the task to an agent that may know it, before it has to act. */
  foresee(task) {
    this.agent.foresee?.(task);
  }

  /**
   * Ask the agent what to do. A decision stands until it is played, so that none is asked for twice, and so does the
   * question, whose answer may be lost with the page.
   */
  async decide(now) {
    if (this.#decided) return;
    this.#asked ??= { task: now, observation: this.world.observation(this.position, now), reward: this.reward };
    const { task, observation, reward } = this.#asked;
    const { action, z } = await this.agent.step(observation, reward, task);
    this.#decided = { task, action, z };
    this.#asked = null;
  }

  /** Play what was decided. Every actor of a step gets the same `draws`. */
  play(draws) {
    const { task, action, z = null } = this.#decided;
    const before = this.position;
    const { position, reward, ended = false, shown = reward } = this.world.step(before, task, action, draws);
    this.trace = ended ? [] : [...this.trace, before].slice(-TRACE);
    this.last = { before, task, action, reward, ended, shown, z };
    this.position = position;
    this.reward = reward;
    this.#decided = null;
  }
}
