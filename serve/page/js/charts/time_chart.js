// What the charts over time share: a window that scrolls with the steps, and what the visitor did, as vertical lines.

import uPlot from "../../vendor/uPlot.esm.js";
import { write } from "../drawing/canvas.js";
import { getColours } from "../drawing/colours.js";
import { WINDOW } from "../history.js";

export class TimeChart {
  #holder;
  #plot;
  #observer;

  /** It fills its holder. `series` and `extra` are uPlot's; `labelled` says whether marks bear their words; `draw` paints further things. */
  constructor(holder, { series, extra = {}, labelled = false, draw = () => {} }) {
    this.#holder = holder;
    this.marks = [];
    const options = {
      ...sizeOf(holder),
      legend: { show: false },
      cursor: { show: false },
      padding: [labelled ? 32 : 8, 10, 0, 0],
      series: [{}, ...series],
      axes: [axis(), axis({ size: 46 })],
      scales: { x: { time: false, range: (_, __, last) => spanOf(last) }, ...extra.scales },
      hooks: { draw: [(plot) => this.#drawMarks(plot, labelled), draw] },
    };
    this.#plot = new uPlot(options, [[], ...series.map(() => [])], holder);
    this.#observer = new ResizeObserver(() => this.#plot.setSize(sizeOf(holder)));
    this.#observer.observe(holder);
  }

  show(columns, marks) {
    this.marks = marks;
    this.#plot.setData(columns);
  }

  close() {
    this.#observer.disconnect();
    this.#plot.destroy();
    this.#holder.replaceChildren();
  }

  #drawMarks(plot, labelled) {
    const { ctx, bbox } = plot;
    const ratio = window.devicePixelRatio || 1;
    const colours = getColours();
    const { min, max } = plot.scales.x;
    const visible = this.marks.filter(({ step }) => step >= min && step <= max);
    ctx.save();
    visible.forEach(({ step, text }, index) => {
      const x = plot.valToPos(step, "x", true);
      Object.assign(ctx, { strokeStyle: colours.hidden, lineWidth: ratio });
      ctx.setLineDash([4 * ratio, 3 * ratio]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      const right = x > bbox.left + 0.8 * bbox.width;
      const place = [x, bbox.top - (index % 2 ? 9 : 24) * ratio];
      if (labelled) write(ctx, text, place, { colour: colours.hidden, size: 11 * ratio, align: right ? "right" : "left" });
    });
    ctx.restore();
  }
}

function sizeOf({ clientWidth, clientHeight }) {
  return { width: clientWidth || 300, height: clientHeight || 150 };
}

export function spanOf(last) {
  const end = Math.max(last ?? 0, WINDOW);
  return [end - WINDOW, end];
}

/** An axis in the page's colours. */
export function axis(options = {}) {
  return {
    stroke: () => getColours().ink,
    grid: { stroke: () => getColours().spawn, width: 1 },
    ticks: { stroke: () => getColours().spawn, width: 1 },
    font: "11px system-ui, sans-serif",
    size: 28,
    ...options,
  };
}
