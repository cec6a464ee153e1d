// Reward per step: the running mean of each actor beside the known-task optimum, and single rewards as ticks below.

import { getColours } from "../drawing/colours.js";
import { TimeChart } from "./time_chart.js";

const ROW = 16;

export class RewardChart {
  #chart;
  #history;

  constructor(holder, history, { optimum, usual, ticks }) {
    this.#history = history;
    const series = history.tracks.map((_, index) => ({
      stroke: () => colourOf(index),
      width: 2,
      dash: index ? [8, 3] : [],
      points: { show: false },
    }));
    series.push({ stroke: () => getColours().ink, width: 1.5, dash: [3, 4], points: { show: false } });
    this.optimum = optimum;
    this.usual = usual;
    this.ticks = ticks;
    this.#chart = new TimeChart(holder, {
      series,
      labelled: true,
      extra: { scales: { y: { range: (_, low, high) => this.#range(low, high) } } },
      draw: (plot) => this.#drawTicks(plot),
    });
  }

  show(marks) {
    const { steps, tracks } = this.#history;
    this.#chart.show([steps, ...tracks.map(({ means }) => means), steps.map(() => this.optimum)], marks);
  }

  close() {
    this.#chart.close();
  }

  /** Room below for the ticks. */
  #range(low, high) {
    if (!this.ticks) return [1.06 * Math.min(low ?? 0, -1), 0.06 * Math.max(-(low ?? 0), 1)]; // costs alone
    const [bottom, top] = [Math.min(low ?? 0, 0), Math.max(high ?? 0, this.optimum ?? 0, 1)];
    return [bottom - 0.22 * (top - bottom), top + 0.1 * (top - bottom)];
  }

  #drawTicks(plot) {
    if (!this.ticks) return;
    const { ctx, bbox } = plot;
    const ratio = window.devicePixelRatio || 1;
    const { good, bad } = getColours();
    const { steps, tracks } = this.#history;
    ctx.save();
    ctx.lineWidth = 1.5 * ratio;
    tracks.forEach(({ rewards }, row) => {
      const bottom = bbox.top + bbox.height - (2 + ROW * (tracks.length - 1 - row)) * ratio;
      rewards.forEach((reward, index) => {
        if (reward === this.usual) return;
        const x = plot.valToPos(steps[index], "x", true);
        ctx.strokeStyle = reward > 0 ? good : bad;
        ctx.beginPath();
        // What is good stands high, what is bad low, for those who cannot tell the colours.
        ctx.moveTo(x, bottom - (reward > 0 ? 6 : 0) * ratio);
        ctx.lineTo(x, bottom - (reward > 0 ? 13 : 7) * ratio);
        ctx.stroke();
      });
    });
    ctx.restore();
  }
}

/** The colour of an actor: of the first and of the one beside it. */
export function colourOf(index) {
  const { first, second } = getColours();
  return index === 0 ? first : second;
}
