// The picture of the pendulum: the rod and where it was, the length and the motor's strength that are hidden, and what
// the motor does.

import { clip } from "../worlds/numbers.js";
import { arrow, disc, fitCanvas, line, write } from "./canvas.js";
import { getColours } from "./colours.js";
import { Floaters } from "./floaters.js";

const MARGIN = 22;
/** Heights of the pivot and of the motor's gauge, as shares of the canvas. */
const PIVOT = 0.46;
const GAUGE = 0.95;
/** Pixels within which the rod's end is held. */
const HOLD = 30;
/** Past rods that are drawn. */
const GHOSTS = 8;

export class PendulumView {
  flat = false;
  floaters = new Floaters();

  constructor(canvas, world) {
    Object.assign(this, { canvas, world });
  }

  draw(actor, task) {
    const { context, width, height } = fitCanvas(this.canvas);
    this.pivot = [width / 2, PIVOT * height];
    this.scale = (PIVOT * height - MARGIN) / this.world.taskBounds.high[0];
    const colours = getColours();
    context.fillStyle = colours.field;
    context.fillRect(0, 0, width, height);
    this.#goal(context, colours);
    this.#length(context, task, colours);
    actor.trace.slice(-GHOSTS).forEach(([theta], index, ghosts) => {
      const alpha = (0.18 * (index + 1)) / ghosts.length;
      line(context, this.pivot, this.#end(theta, task), { colour: colours.seen, width: 9, alpha });
    });
    this.#rod(context, actor.position[0], task, colours);
    this.#gauge(context, [width / 2, GAUGE * height, 0.27 * width], actor.last, task, colours);
  }

  /** Every step costs a little, which the chart shows better. */
  celebrate() {}

  /** The rod's end can be dragged, which changes its length. */
  grab(pixels, task, { position: [theta] }) {
    const end = this.#end(theta, task);
    if (Math.hypot(pixels[0] - end[0], pixels[1] - end[1]) > HOLD) return null;
    const { low, high } = this.world.taskBounds;
    const length = ([x, y]) => clip(Math.hypot(x - this.pivot[0], y - this.pivot[1]) / this.scale, low[0], high[0]);
    return { words: "length changed", taskAt: (to) => [length(to), ...task.slice(1)] };
  }

  describe({ position: [theta], last }, task) {
    const degrees = Math.round((Math.asin(Math.sin(theta)) * 180) / Math.PI);
    const where = Math.cos(theta) > 0 ? `${Math.abs(degrees)} degrees from upright` : "below the pivot";
    const motor = last ? ` The motor turns it with ${this.world.torque(last.action, last.task).toFixed(1)}.` : "";
    return `A rod ${task[0].toFixed(2)} long, ${where}; its motor has at most ${task[3].toFixed(2)}.${motor}`;
  }

  /** Angles are counted against the clock from upright, as Gymnasium draws them. */
  #end(theta, [length]) {
    const [x, y] = this.pivot;
    return [x - Math.sin(theta) * length * this.scale, y - Math.cos(theta) * length * this.scale];
  }

  #goal(context, { good, faint }) {
    const [x, y] = this.pivot;
    const top = y - this.scale * this.world.taskBounds.high[0];
    line(context, [x, y], [x, top + 10], { colour: faint, width: 1, dash: [3, 5] });
    line(context, [x - 9, top], [x + 9, top], { colour: good, width: 4 });
    write(context, "upright", [x + 18, top + 1], { colour: good, size: 12, align: "left" });
  }

  #length(context, task, { hidden, field }) {
    const [x, y] = this.pivot;
    const radius = task[0] * this.scale;
    context.save();
    Object.assign(context, { strokeStyle: hidden, lineWidth: 1.5 });
    context.setLineDash([5, 5]);
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.stroke();
    context.restore();
    const words = `hidden length ${task[0].toFixed(2)}`;
    write(context, words, [x, y + radius + 15], { colour: hidden, backing: field });
  }

  #rod(context, theta, task, { seen, paper, ink, hidden }) {
    const end = this.#end(theta, task);
    line(context, this.pivot, end, { colour: seen, width: 13 });
    disc(context, this.pivot, 5, { fill: ink, stroke: paper });
    disc(context, end, 10, { fill: hidden, stroke: paper, width: 3 });
  }

  /** What the motor does, from left to right as it turns the rod; violet what it can do at most. */
  #gauge(context, [x, y, reach], last, task, { faint, hidden, ink }) {
    const strongest = this.world.taskBounds.high[3];
    const at = (torque) => [x - (clip(torque, -strongest, strongest) / strongest) * reach, y];
    line(context, at(strongest), at(-strongest), { colour: faint, width: 2 });
    line(context, at(task[3]), at(-task[3]), { colour: hidden, width: 12, alpha: 0.3 });
    line(context, [x, y - 8], [x, y + 8], { colour: faint, width: 1.5 });
    const torque = last ? this.world.torque(last.action, last.task) : 0;
    if (Math.abs(torque) > 0.02) arrow(context, [x, y], at(torque), { colour: ink, width: 3 });
    write(context, "motor", [x - reach - 14, y], { colour: ink, size: 12, align: "right" });
    write(context, `at most ${task[3].toFixed(2)}`, [x + reach + 14, y], { colour: hidden, size: 12, align: "left" });
  }
}
