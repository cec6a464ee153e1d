// A player in its own copy of a world: where it is, what it did last, where it came from.

/** How many past positions a picture shows. */
const TRACE = 24;

export class Actor {
  #decided = null;

  /** `agent` has `step(observation, reward, task)`, of which only a player that knows the task looks at the last. */
  constructor({ name, kind, world, agent, layers = [] }) {
    Object.assign(this, { name, kind, world, agent, layers });
    this.reward = null;
    this.locked = false;
  }

  /** Appear at a position; nothing has been played there. */
  begin(position) {
    this.position = position;
    this.last = null;
    this.trace = [];
    this.#decided = null;
  }

  /** The agent's memory is empty again: for it the next step is the first. */
  forget() {
    this.reward = null;
    this.locked = false;
    this.#decided = null;
  }

  /** Tell the task to an agent that may know it, before it has to act. */
  foresee(task) {
    this.agent.foresee?.(task);
  }

  /** Ask the agent what to do. A decision stands until it is played, so that none is asked for twice. */
  async decide(task) {
    if (this.#decided) return;
    const answer = await this.agent.step(this.world.observation(this.position, task), this.reward, task);
    this.#decided = { task, ...answer };
  }

  /** Play what was decided. Every actor of a step gets the same `draws`. */
  play(draws) {
    const { task, action, z = null } = this.#decided;
    const before = this.position;
    const { position, reward } = this.world.step(before, task, action, draws);
    this.trace = [...this.trace, before].slice(-TRACE);
    this.last = { before, task, action, reward, z };
    this.position = position;
    this.reward = reward;
    this.#decided = null;
  }
}
