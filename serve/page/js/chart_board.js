// All charts of an experiment.

import { HeatMap } from "./charts/heat_map.js";
import { RewardChart } from "./charts/reward_chart.js";
import { SignalChart } from "./charts/signal_chart.js";
import { byId, fillSelect, make } from "./dom.js";

const SIGNAL = "One line per dimension: what the memory steers the acting network by.";
const NO_SIGNAL = "None of the players has this signal; neuromodulated agents do.";

export class ChartBoard {
  #charts;
  #heat = null;
  #marked = 0;

  /** `optimum` is the reward per step of who knows the task, null where unknown. */
  constructor(experiment, { optimum, signalSize, benchmark }) {
    this.experiment = experiment;
    const { history, actors, world } = experiment;
    this.#charts = [new RewardChart(byId("reward-chart"), history, { optimum, usual: world.stepReward, ticks: !benchmark.noTicks })];
    const modulated = actors.findIndex(({ kind }) => kind === "nmn");
    byId("inside").hidden = modulated < 0;
    const layers = actors[modulated]?.layers ?? [];
    if (layers.length === 0) byId("inside").hidden = true;
    byId("signal-words").textContent = modulated < 0 ? NO_SIGNAL : SIGNAL;
    if (modulated >= 0) this.#charts.push(new SignalChart(byId("signal-chart"), history, modulated, signalSize));
    if (layers.length > 0) this.#addHeatMap(modulated, layers);
    byId("marks").replaceChildren();
    this.#explain(optimum, benchmark);
  }

  show() {
    const { marks } = this.experiment;
    for (const chart of this.#charts) chart.show(marks);
    if (this.#heat) byId("heat-range").textContent = this.#rangeWords();
    for (const { step, text } of marks.slice(this.#marked)) {
      byId("marks").append(make("li", {}, `after step ${Math.floor(step)}: ${text}`));
    }
    this.#marked = marks.length;
  }

  close() {
    for (const chart of this.#charts) chart.close?.();
  }

  #addHeatMap(modulated, layers) {
    this.#heat = new HeatMap(byId("heat-map"), this.experiment.history, modulated);
    this.#charts.push(this.#heat);
    const names = layers.map(({ units }, index) => [index, `hidden layer ${index + 1} (${units} units)`]);
    fillSelect(byId("layer"), names, 0);
    byId("layer").onchange = () => {
      this.#heat.layer = Number(byId("layer").value);
      this.#heat.show(this.experiment.marks);
    };
    this.#drawLegend();
  }

  #drawLegend() {
    const canvas = byId("heat-legend");
    const context = canvas.getContext("2d");
    for (let x = 0; x < canvas.width; x += 1) {
      const gain = 1 + this.#heat.reach * ((2 * x) / canvas.width - 1);
      context.fillStyle = `rgb(${this.#heat.colour(gain).slice(0, 3).join(" ")})`;
      context.fillRect(x, 0, 1, canvas.height);
    }
  }

  #rangeWords() {
    const { reach } = this.#heat;
    return `${(1 - reach).toFixed(1).replace("-", "−")} and less (blue), 1 (white), ${(1 + reach).toFixed(1)} and more (red)`;
  }

  #explain(optimum, { shown, noTicks }) {
    const { history, actors } = this.experiment;
    byId("reward-title").textContent = shown?.title ?? "Reward per step";
    const ticks = noTicks ? "" : " The ticks below it are single rewards, high for good, low for bad.";
    const line = optimum === null ? "" : " Dotted is what a player that knows the task earns, a mean over tasks.";
    byId("reward-caption").textContent =
      shown?.caption ?? `The chart of the reward shows the mean of the last ${history.averaged} steps.${ticks}${line}`;
    const keys = actors.map(({ name }, index) => make("span", { class: index ? "key second" : "key" }, name));
    if (optimum !== null) {
      const words = `who knows the task: ${optimum.toFixed(1)}`;
      keys.push(make("span", { class: "key optimum" }, words));
    }
    byId("reward-legend").replaceChildren(...keys);
  }
}
