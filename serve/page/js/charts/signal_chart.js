// Every dimension of the neuromodulatory signal z over time.

import { TimeChart } from "./time_chart.js";

export class SignalChart {
  #chart;
  #track;
  #steps;

  constructor(holder, { steps, tracks }, index, size) {
    this.#track = tracks[index];
    this.#steps = steps;
    const series = Array.from({ length: size }, (_, dimension) => ({
      stroke: `hsl(${Math.round((360 * dimension) / size)} 60% 50%)`,
      width: 1,
      points: { show: false },
    }));
    this.#chart = new TimeChart(holder, { series });
    this.size = size;
  }

  show(marks) {
    const columns = Array.from({ length: this.size }, (_, i) => this.#track.signals.map((z) => z[i]));
    this.#chart.show([this.#steps, ...columns], marks);
  }

  close() {
    this.#chart.close();
  }
}
