// Where an experiment runs: it is begun, stepped by the clock, shown, and meddled with.

import { Actor } from "./actor.js";
import { BayesPlayer } from "./bayes.js";
import { BAYES, benchmarkOf, KNOWN_TASK, optimumPerStep } from "./benchmarks.js";
import { ChartBoard } from "./chart_board.js";
import { Clock, SPEEDS } from "./clock.js";
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
import { worldOf, WORLDS } from "./worlds/index.js";

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
  #benchmark = null;
  #kept = null;
  #opened = [];

  constructor(server, catalogue) {
    this.#server = server;
    this.#catalogue = catalogue;
    this.clock = new Clock(() => this.#step(), (playing) => this.controls.showPlaying(playing));
    this.controls = new Controls(this);
    watchColours(() => this.#touch());
    addEventListener("resize", () => this.#touch());
    requestAnimationFrame(() => this.#frame());
  }

  /** Begin another experiment, which plays at once, unless less motion is wanted; or go on with a `kept` one. */
  async begin({ benchmark, players }, kept = null) {
    this.#beginning += 1;
    const beginning = this.#beginning;
    this.clock.pause();
    this.#end();
    this.#kept = kept;
    try {
      const world = this.#world(benchmark, players);
      const actors = await Promise.all(players.map((name, index) => this.#actor(name, world, kept?.actors[index])));
      if (beginning !== this.#beginning) return;
      this.#opened = actors;
      const optimum = await this.#optimum(benchmark);
      await Promise.all(actors.map(({ agent }) => agent.open()));
      if (beginning !== this.#beginning) return;
      const run = new Experiment({ world, actors, seed: chosenSeed(), averaged: benchmark.averaged, kept });
      if (kept || benchmark.speed !== this.#benchmark?.speed) this.controls.setSpeed(kept ? SPEEDS[kept.place] : benchmark.speed);
      this.#show(run, benchmark, optimum);
      if (kept ? kept.playing : !calm.matches) this.toggle();
    } catch (error) {
      if (beginning === this.#beginning) this.#tell(error);
    }
  }

  /** What `begin` needs to go on with the run after a reload; null if there is none. */
  keep() {
    if (!this.experiment) return this.#kept;
    const [benchmark, players] = [this.#benchmark.name, this.experiment.actors.map(({ name }) => name)];
    const { speed, playing } = this.clock; // JSON has no infinity, the number of a place is kept
    return { benchmark, players, place: SPEEDS.indexOf(speed), playing, ...this.experiment.keep() };
  }

  /** The page goes away, and its agents' sessions are left open. */
  leave() {
    for (const { agent } of this.#opened) (agent.leave ?? agent.close).call(agent);
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

  /** The world that the first agent of the server was made for. */
  #world({ envId }, players) {
    return WORLDS[envId] ?? worldOf(this.#catalogue.agents.find(({ name }) => name === players[0]));
  }

  async #actor(name, world, kept) {
    if (name === BAYES) return new Actor({ name, kind: "theory", world, agent: new BayesPlayer(kept?.agent), kept });
    if (name === KNOWN_TASK) {
      return new Actor({ name, kind: "theory", world, agent: new KnownTaskPlayer(world, () => this.#touch()), kept });
    }
    const { kind, signal_size: signalSize } = this.#catalogue.agents.find((agent) => agent.name === name);
    const layers = kind === "nmn" ? await this.#catalogue.hiddenLayers(name) : [];
    const notify = (state, words) => this.#notice(actor, state, words);
    const agent = new RemoteAgent(this.#server, name, notify, kept?.agent);
    const actor = new Actor({ name, kind, world, agent, layers, kept });
    actor.signalSize = signalSize;
    return actor;
  }

  async #optimum(benchmark) {
    for (const { name } of this.#catalogue.agents.filter((agent) => benchmarkOf(agent) === benchmark)) {
      const scores = await this.#catalogue.scores(name);
      if (scores) return optimumPerStep(scores);
    }
    return null;
  }

  #show(run, benchmark, optimum) {
    for (const actor of run.actors.filter(({ forgot }) => forgot)) this.#empty(run, actor);
    this.experiment = run;
    this.#benchmark = benchmark;
    const signalSize = run.actors.find(({ kind }) => kind === "nmn")?.signalSize;
    const setTask = (task, words) => this.meddle((experiment) => experiment.setTask(task, words));
    this.#stage = new Stage(byId("views"), run, setTask);
    this.#form = new TaskForm(byId("task"), benchmark.name, run, setTask);
    this.#charts = new ChartBoard(run, { optimum, signalSize, benchmark });
    this.controls.enable(run, benchmark);
    this.controls.showLocked(run.locked);
    if (!this.#kept) showCondition("connected", "Connected.");
    this.#touch();
  }

  #end() {
    for (const { agent } of this.#opened) agent.close();
    this.#opened = [];
    this.#charts?.close();
    this.experiment = null;
    this.#charts = null;
    this.controls.enable(null, null);
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
    if (state !== "forgotten") return;
    actor.forgot = true;
    if (!this.experiment) return; // it begins and will be told
    this.#empty(this.experiment, actor);
    this.controls.showLocked(this.experiment.locked);
  }

  #empty(run, actor) {
    actor.forgot = false;
    actor.forget();
    run.mark("memory lost");
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
    const shown = this.#benchmark.shown && "steps since the pole fell";
    const told = actors.map(({ name, last, locked, agent }, index) => {
      const news = agent.news ? `, ${agent.news}` : "";
      if (!last) return `${name} has not played yet${news}.`;
      const mean = signed(Number(history.mean(index).toFixed(2)));
      const earned = shown ? `${history.mean(index)} ${shown}` : `reward ${signed(last.reward)}, mean of the last ${history.averaged} ${mean}`;
      return `${name}: ${earned}${locked ? ", z frozen" : ""}${news}.`;
    });
    return `Step ${steps}. ${told.join(" ")}`;
  }
}

/** The seed of the address (`/?seed=7` plays the same chance again), or a random one. */
function chosenSeed() {
  const seed = new URLSearchParams(location.search).get("seed");
  return /^\d+$/.test(seed ?? "") ? Number(seed) : randomSeed();
}
