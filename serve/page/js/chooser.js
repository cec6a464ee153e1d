// The three selects: world, agent, and who plays beside it.

import { BENCHMARKS } from "./benchmarks.js";
import { byId, fillSelect } from "./dom.js";

const NOBODY = "";
const DEFAULT = "b3";
const KINDS = { nmn: "neuromodulated", rnn: "recurrent", film: "FiLM", hyper: "hypernetwork" };

export class Chooser {
  /** `onChoose` is called with `{benchmark, players}`, names of one or two players. */
  constructor(agents, onChoose) {
    this.agents = agents;
    this.onChoose = onChoose;
    const served = BENCHMARKS.filter(({ envId }) => agents.some((agent) => agent.env_id === envId));
    const chosen = served.find(({ name }) => name === DEFAULT) ?? served[0];
    fillSelect(byId("benchmark"), served.map(({ name, title }) => [name, `${name}: ${title}`]), chosen.name);
    byId("benchmark").addEventListener("change", () => this.#changeBenchmark());
    byId("agent").addEventListener("change", () => this.#changeAgent());
    byId("rival").addEventListener("change", () => this.#choose());
  }

  start() {
    this.#changeBenchmark();
  }

  get benchmark() {
    return BENCHMARKS.find(({ name }) => name === byId("benchmark").value);
  }

  get #players() {
    const fitting = this.agents.filter(({ env_id: envId }) => envId === this.benchmark.envId);
    const named = fitting.map(({ name, kind }) => [name, `${name} (${KINDS[kind] ?? kind})`]);
    return [...named, [this.benchmark.theory, `${this.benchmark.theory} (theory)`]];
  }

  #changeBenchmark() {
    const players = this.#players;
    byId("story").textContent = this.benchmark.story;
    const first = players.find(([name]) => name === `${this.benchmark.name}-nmn`) ?? players[0];
    fillSelect(byId("agent"), players, first[0]);
    this.#changeAgent();
  }

  #changeAgent() {
    const others = this.#players.filter(([name]) => name !== byId("agent").value);
    const before = byId("rival").value;
    const kept = others.some(([name]) => name === before) ? before : NOBODY;
    fillSelect(byId("rival"), [[NOBODY, "nobody"], ...others], kept);
    this.#choose();
  }

  #choose() {
    const players = [byId("agent").value, byId("rival").value].filter((name) => name !== NOBODY);
    this.onChoose({ benchmark: this.benchmark, players });
  }
}
