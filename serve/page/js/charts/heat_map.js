// The scale factors of a hidden layer over time: a row for each unit, a column for each step.

import { fitCanvas, line, write } from "../drawing/canvas.js";
import { getColours } from "../drawing/colours.js";
import { WINDOW } from "../history.js";
import { spanOf } from "./time_chart.js";

const LEFT = 46;
const BOTTOM = 20;
const RIGHT = 10;
/** Blue below the neutral 1, white at it, red above: distinct for the colour-blind, and equally far from either page. */
const COLD = [33, 102, 172];
const NEUTRAL = [247, 247, 247];
const HOT = [178, 24, 43];

export class HeatMap {
  #canvas;
  #pixels = document.createElement("canvas");
  #reach = 0.5;

  /** `layer` can be changed. */
  constructor(canvas, history, index) {
    this.#canvas = canvas;
    this.history = history;
    this.track = history.tracks[index];
    this.layer = 0;
  }

  /** How far from 1 a factor has to be for the full colour: nine of ten are nearer at every step that is shown. */
  get reach() {
    return this.#reach;
  }

  show(marks) {
    const { context, width, height } = fitCanvas(this.#canvas);
    const { ink } = getColours();
    const rows = this.track.gains.map((layers) => layers[this.layer]);
    const units = rows[0]?.length ?? 0;
    const [from, to] = spanOf(this.history.steps.at(-1));
    const [wide, high] = [width - LEFT - RIGHT, height - BOTTOM - 2];
    if (units) this.#paint(rows, units);
    context.imageSmoothingEnabled = false;
    const first = LEFT + ((this.history.steps[0] ?? 0) - 0.5 - from) * (wide / WINDOW);
    if (units) context.drawImage(this.#pixels, first, 2, (wide / WINDOW) * rows.length, high);
    for (const [label, y] of [["1", 8], [String(units || ""), high - 4]]) {
      write(context, label, [LEFT - 6, y], { colour: ink, size: 11, align: "right" });
    }
    for (const { step } of marks.filter(({ step }) => step >= from && step <= to)) {
      const x = LEFT + (step - from) * (wide / WINDOW);
      line(context, [x, 2], [x, 2 + high], { colour: "#000", width: 1, dash: [4, 3] });
    }
    for (let step = Math.ceil(from / 100) * 100; step <= to; step += 100) {
      write(context, String(step), [LEFT + (step - from) * (wide / WINDOW), height - 8], { colour: ink, size: 11 });
    }
  }

  #paint(rows, units) {
    this.#reach = Math.max(0.5, ...rows.map(reachOf));
    const image = new ImageData(rows.length, units);
    rows.forEach((row, x) => row.forEach((gain, y) => image.data.set(this.colour(gain), 4 * (y * rows.length + x))));
    Object.assign(this.#pixels, { width: rows.length, height: units });
    this.#pixels.getContext("2d").putImageData(image, 0, 0);
  }

  /** Red, green, blue and opacity of a factor. */
  colour(gain) {
    const far = Math.min(1, Math.abs(gain - 1) / this.#reach);
    const end = gain < 1 ? COLD : HOT;
    return [...NEUTRAL.map((neutral, i) => Math.round(neutral + far * (end[i] - neutral))), 255];
  }
}

/** What nine of ten factors of a step are nearer to 1 than. */
function reachOf(row) {
  const distances = row.map((gain) => Math.abs(gain - 1)).sort();
  return distances[Math.floor(0.9 * distances.length)];
}
