// Where an experiment runs: it is begun, stepped by the clock, shown, and meddled with.

import { Actor } from "./actor.js";
import { BayesPlayer } from "./bayes.js";
import { BAYES, KNOWN_TASK, optimumPerStep } from "./benchmarks.js";
import { ChartBoard } from "./chart_board.js";
import { Clock } from "./clock.js";
import { showCondition } from "./condition.js";
import { Controls } from "./controls.js";
import { byId } from "./dom.js";
import { randomSeed } from "./draws.js";
import { signed } from "./drawing/floaters.js";
import { watchColours } from "./drawing/colours.js";
import { Experiment } from "./experiment.js";
import { KnownTaskPlayer } from "./known_task/player.js";
import { RemoteAgent } from "./remote_agent.js";
import { Stage } from "./stage.js";
import { TaskForm } from "./task_form.js";
import { WORLDS } from "./worlds/index.js";

const CHART_MILLISECONDS = 200;
const FAST_FRAME_MILLISECONDS = 60;
const WORDS_MILLISECONDS = 1000;
const calm = matchMedia("(prefers-reduced-motion: reduce)");

export class Lab {
  experiment = null;
  #server;
  #catalogue;
  #changed = true;
  #frameDue = 0;
  #chartsDue = 0;
  #wordsDue = 0;
  #stage;
  #form;
  #charts;
  #beginning = 0;
  #opened = [];

  constructor(server, catalogue) {
    this.#server = server;
    this.#catalogue = catalogue;
    this.clock = new Clock(() => this.#step(), (playing) => this.controls.showPlaying(playing));
    this.controls = new Controls(this);
    watchColours(() => this.#touch());
    addEventListener("resize", () => this.#touch());
    addEventListener("pagehide", () => this.#opened.forEach(({ agent }) => agent.close()));
    requestAnimationFrame(() => this.#frame());
  }

  /** Begin another experiment; it plays at once, unless less motion is wanted. */
  async begin({ benchmark, players }) {
    this.#beginning += 1;
    const beginning = this.#beginning;
    this.clock.pause();
    this.#end();
    try {
      const world = WORLDS[benchmark.envId];
      const actors = await Promise.all(players.map((name) => this.#actor(name, world)));
      if (beginning !== this.#beginning) return;
      this.#opened = actors;
      const optimum = await this.#optimum(benchmark);
      await Promise.all(actors.map(({ agent }) => agent.open()));
      if (beginning !== this.#beginning) return;
      const run = new Experiment({ world, actors, seed: chosenSeed(), averaged: benchmark.averaged });
      this.#show(run, benchmark, optimum);
      if (!calm.matches) this.toggle();
    } catch (error) {
      if (beginning === this.#beginning) this.#tell(error);
    }
  }

  toggle() {
    if (this.clock.playing) this.clock.pause();
    else this.clock.play();
  }

  stepOnce() {
    this.clock.pause();
    return this.#step();
  }

  /** Do something to the run, which may take a while; what goes wrong is said. */
  async meddle(act) {
    const { experiment } = this;
    if (!experiment) return;
    try {
      await act(experiment);
    } catch (error) {
      this.#tell(error);
    }
    if (experiment === this.experiment) this.controls.showLocked(experiment.locked);
    this.#touch();
  }

  async #actor(name, world) {
    if (name === BAYES) return new Actor({ name, kind: "theory", world, agent: new BayesPlayer() });
    if (name === KNOWN_TASK) {
      return new Actor({ name, kind: "theory", world, agent: new KnownTaskPlayer(world, () => this.#touch()) });
    }
    const { kind, signal_size: signalSize } = this.#catalogue.agents.find((agent) => agent.name === name);
    const layers = kind === "nmn" ? await this.#catalogue.hiddenLayers(name) : [];
    const agent = new RemoteAgent(this.#server, name, (state, words) => this.#notice(actor, state, words));
    const actor = new Actor({ name, kind, world, agent, layers });
    actor.signalSize = signalSize;
    return actor;
  }

  async #optimum({ envId }) {
    for (const { name } of this.#catalogue.agents.filter((agent) => agent.env_id === envId)) {
      const scores = await this.#catalogue.scores(name);
      if (scores) return optimumPerStep(scores);
    }
    return null;
  }

  #show(run, { name }, optimum) {
    this.experiment = run;
    const signalSize = run.actors.find(({ kind }) => kind === "nmn")?.signalSize;
    const setTask = (task, words) => this.meddle((experiment) => experiment.setTask(task, words));
    this.#stage = new Stage(byId("views"), run, setTask);
    this.#form = new TaskForm(byId("task"), name, () => run.task, setTask);
    this.#charts = new ChartBoard(run, { optimum, signalSize });
    byId("drag-help").textContent = DRAGGING[name];
    this.controls.enable(run);
    this.controls.showLocked(false);
    showCondition("connected", "Connected.");
    this.#touch();
  }

  #end() {
    for (const { agent } of this.#opened) agent.close();
    this.#opened = [];
    this.#charts?.close();
    this.experiment = null;
    this.#charts = null;
    this.controls.enable(null);
  }

  async #step() {
    const { experiment } = this;
    try {
      await experiment.step();
    } catch (error) {
      if (experiment === this.experiment) this.#tell(error);
      return;
    }
    if (experiment !== this.experiment) return;
    this.#stage.celebrate();
    this.#changed = true;
  }

  /** What the server says of an actor's session. */
  #notice(actor, state, words) {
    if (!this.#opened.includes(actor)) return;
    showCondition(state, words);
    if (state !== "forgotten" || !this.experiment) return;
    actor.forget();
    this.experiment.mark("memory lost");
    this.controls.showLocked(this.experiment.locked);
  }

  #tell(error) {
    this.clock.pause();
    showCondition("problem", error.message);
  }

  /** Show everything anew at the next frame. */
  #touch() {
    this.#changed = true;
    this.#chartsDue = 0;
    this.#wordsDue = 0;
  }

  #frame() {
    requestAnimationFrame(() => this.#frame());
    if (!this.experiment) return;
    const now = performance.now();
    if (now < this.#frameDue) return;
    this.#frameDue = now + (this.clock.speed === Infinity && this.clock.playing ? FAST_FRAME_MILLISECONDS : 0);
    if (this.#changed || this.#stage.busy) this.#stage.draw();
    if (!this.#changed) return;
    this.#form.show(this.experiment.task);
    byId("readout").textContent = this.#readout();
    const chartsDue = now >= this.#chartsDue;
    if (chartsDue) {
      this.#charts.show();
      this.#chartsDue = now + CHART_MILLISECONDS;
    }
    if (now >= this.#wordsDue) {
      this.#stage.describe();
      this.#wordsDue = now + WORDS_MILLISECONDS;
    }
    this.#changed = !chartsDue; // the charts still have to show the last step
  }

  #readout() {
    const { steps, actors, history } = this.experiment;
    const told = actors.map(({ name, last, locked, agent }, index) => {
      const news = agent.news ? `, ${agent.news}` : "";
      if (!last) return `${name} has not played yet${news}.`;
      const mean = signed(Number(history.mean(index).toFixed(2)));
      return `${name}: reward ${signed(last.reward)}, mean of the last ${history.averaged} ${mean}${locked ? ", z frozen" : ""}${news}.`;
    });
    return `Step ${steps}. ${told.join(" ")}`;
  }
}

/** The seed of the address (`/?seed=7` plays the same chance again), or a random one. */
function chosenSeed() {
  const seed = new URLSearchParams(location.search).get("seed");
  return /^\d+$/.test(seed ?? "") ? Number(seed) : randomSeed();
}

const DRAGGING = {
  b1: "Drag the violet goal in the picture, or use the slider.",
  b2: "Drag the target or the compass in the picture, or use the sliders.",
  b3: "Drag the targets in the picture, or use the sliders.",
};
