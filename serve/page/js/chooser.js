// The three selects: world, agent, and who plays beside it.

import { BENCHMARKS, benchmarkOf } from "./benchmarks.js";
import { byId, fillSelect } from "./dom.js";

const NOBODY = "";
const DEFAULT = "b3";
const KINDS = { nmn: "neuromodulated", rnn: "recurrent", film: "FiLM", hyper: "hypernetwork" };

export class Chooser {
  /**
   * `onChoose` is called with `{benchmark, players}`, names of one or two players, and at the start with the run that is
   * to go on, null if there is none.
   */
  constructor(agents, onChoose) {
    this.agents = agents;
    this.onChoose = onChoose;
    const served = BENCHMARKS.filter((benchmark) => agents.some((agent) => benchmarkOf(agent) === benchmark));
    const chosen = served.find(({ name }) => name === DEFAULT) ?? served[0];
    fillSelect(byId("benchmark"), served.map(({ name, title }) => [name, /^b\d$/.test(name) ? `${name}: ${title}` : title]), chosen.name);
    byId("benchmark").addEventListener("change", () => this.#changeBenchmark());
    byId("agent").addEventListener("change", () => this.#changeAgent());
    byId("rival").addEventListener("change", () => this.#choose());
  }

  /** `kept` is of `Lab.keep`; where its players are not served any more, another run begins. */
  start(kept) {
    const first = byId("benchmark").value;
    if (kept && this.#set(kept)) return this.onChoose(this.#choice, kept);
    byId("benchmark").value = first;
    return this.#changeBenchmark();
  }

  get benchmark() {
    return BENCHMARKS.find(({ name }) => name === byId("benchmark").value);
  }

  get #players() {
    const fitting = this.agents.filter((agent) => benchmarkOf(agent) === this.benchmark);
    const named = fitting.map(({ name, kind }) => [name, `${name} (${KINDS[kind] ?? kind})`]);
    const { theory } = this.benchmark;
    return theory ? [...named, [theory, `${theory} (theory)`]] : named;
  }

  #changeBenchmark() {
    const players = this.#players;
    byId("story").textContent = this.benchmark.story;
    const first = players.find(([name]) => name === `${this.benchmark.name}-nmn`) ?? players[0];
    fillSelect(byId("agent"), players, first[0]);
    this.#changeAgent();
  }

  #changeAgent() {
    const others = this.#others;
    const before = byId("rival").value;
    const kept = others.some(([name]) => name === before) ? before : NOBODY;
    fillSelect(byId("rival"), others, kept);
    this.#choose();
  }

  /** Set the selects as they were. Gives whether all of it is still to be had. */
  #set({ benchmark, players: [agent, rival = NOBODY] }) {
    byId("benchmark").value = benchmark;
    if (!this.benchmark) return false;
    fillSelect(byId("agent"), this.#players, agent);
    fillSelect(byId("rival"), this.#others, rival);
    byId("story").textContent = this.benchmark.story;
    return byId("agent").value === agent && byId("rival").value === rival;
  }

  /** Who may play beside the agent chosen. */
  get #others() {
    return [[NOBODY, "nobody"], ...this.#players.filter(([name]) => name !== byId("agent").value)];
  }

  get #choice() {
    const players = [byId("agent").value, byId("rival").value].filter((name) => name !== NOBODY);
    return { benchmark: this.benchmark, players };
  }

  #choose() {
    this.onChoose(this.#choice, null);
  }
}
