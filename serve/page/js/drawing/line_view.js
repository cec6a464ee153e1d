// The picture of benchmark 1: what is seen on the upper line, what is hidden and played on the lower one.

import { clip } from "../worlds/numbers.js";
import { disc, fitCanvas, line, write } from "./canvas.js";
import { getColours } from "./colours.js";
import { Floaters, signed } from "./floaters.js";

const MARGIN = 16;
/** Heights of the two lines, as shares of the canvas. */
const SEEN = 0.27;
const PLAYED = 0.68;
/** Pixels within which the goal is held. */
const HOLD = 26;

export class LineView {
  flat = true;
  floaters = new Floaters();

  constructor(canvas, world) {
    Object.assign(this, { canvas, world });
  }

  draw(actor, task) {
    const { context, width, height } = fitCanvas(this.canvas);
    Object.assign(this, { height, middle: width / 2, scale: (width / 2 - MARGIN) / this.world.actionMax });
    const colours = getColours();
    this.#ruler(context, SEEN, this.world.observationMax, "the agent sees", colours);
    this.#ruler(context, PLAYED, this.world.actionMax, "the agent plays", colours);
    this.#goal(context, actor.position, task, colours);
    if (actor.last) this.#action(context, actor.last, colours);
    const seen = this.#at(actor.position[0], SEEN);
    disc(context, seen, 8, { fill: colours.seen, stroke: colours.paper });
    write(context, `x = ${signed(actor.position[0])}`, [seen[0], seen[1] - 20], { colour: colours.seen });
    this.floaters.draw(context, this.toPixels, colours.paper);
  }

  celebrate({ last }) {
    const colours = getColours();
    this.floaters.add(signed(last.reward), last.action, last.reward > 0 ? colours.good : colours.bad);
  }

  /** The goal can be dragged along the lower line, which changes the bias. */
  grab(pixels, task, actor) {
    const goal = this.#at(this.world.goal(actor.position, task), PLAYED);
    if (Math.hypot(pixels[0] - goal[0], pixels[1] - goal[1]) > HOLD) return null;
    const { alphaMax } = this.world;
    const bias = ([x]) => clip(actor.position[0] - (x - this.middle) / this.scale, -alphaMax, alphaMax);
    return { words: "bias changed", taskAt: (to) => [bias(to)] };
  }

  describe({ position, last }, task) {
    const played = last ? ` It last played ${last.action[0].toFixed(1)}.` : "";
    const goal = this.world.goal(position, task).toFixed(1);
    return `The agent sees ${position[0].toFixed(1)}; the goal is at ${goal}.${played}`;
  }

  toPixels = ([action]) => this.#at(clip(action, -this.world.actionMax, this.world.actionMax), PLAYED);

  #at(x, level) {
    return [this.middle + x * this.scale, level * this.height];
  }

  #ruler(context, level, reach, label, { faint, ink }) {
    line(context, this.#at(-reach, level), this.#at(reach, level), { colour: faint, width: 1.5 });
    for (let mark = -reach; mark <= reach; mark += 5) {
      const [x, y] = this.#at(mark, level);
      line(context, [x, y - 4], [x, y + 4], { colour: faint, width: 1.5 });
      write(context, String(mark).replace("-", "−"), [x, y + 18], { colour: ink, size: 11 });
    }
    write(context, label, [MARGIN, level * this.height - 34], { colour: ink, align: "left" });
  }

  #goal(context, position, task, { hidden }) {
    const goal = this.#at(this.world.goal(position, task), PLAYED);
    const reach = this.world.hitRadius * this.scale;
    context.save();
    Object.assign(context, { fillStyle: hidden, globalAlpha: 0.3 });
    context.fillRect(goal[0] - reach, goal[1] - 18, 2 * reach, 36);
    context.restore();
    const from = this.#at(position[0], SEEN);
    line(context, [from[0], from[1] + 10], [goal[0], goal[1] - 20], { colour: hidden, width: 1.5, dash: [5, 4] });
    const words = `hidden goal, bias ${signed(task[0])}`;
    const x = clip(goal[0], 75, 2 * this.middle - 75);
    write(context, words, [x, goal[1] + 42], { colour: hidden });
  }

  #action(context, { before, task, action, reward }, { good, bad, paper }) {
    const colour = reward > 0 ? good : bad;
    const goal = this.#at(this.world.goal(before, task), PLAYED);
    const [x, y] = this.toPixels(action);
    line(context, goal, [x, y], { colour, width: 3 });
    context.save();
    context.translate(x, y);
    context.rotate(Math.PI / 4);
    Object.assign(context, { fillStyle: colour, strokeStyle: paper, lineWidth: 2 });
    context.fillRect(-7, -7, 14, 14);
    context.strokeRect(-7, -7, 14, 14);
    context.restore();
  }
}
