// The picture of the cart and its pole: where they are and were, the limits, and what is hidden: length and push.

import { clip } from "../worlds/numbers.js";
import { arrow, disc, fitCanvas, line, write } from "./canvas.js";
import { getColours } from "./colours.js";
import { Floaters } from "./floaters.js";

const MARGIN = 30;
/** Height of the track, as a share of the canvas. */
const TRACK = 0.76;
const CART = { width: 0.56, height: 0.26 };
/** Pixels within which the pole's end is held. */
const HOLD = 30;
/** Past poles that are drawn, each of some steps before the one after it. */
const GHOSTS = 6;
const APART = 3;

export class CartPoleView {
  flat = false;
  floaters = new Floaters();

  constructor(canvas, world) {
    Object.assign(this, { canvas, world });
  }

  draw(actor, task) {
    const { context, width, height } = fitCanvas(this.canvas);
    const tall = (TRACK * height - MARGIN) / (2 * this.world.taskBounds.high[0] + CART.height);
    Object.assign(this, { middle: width / 2, track: TRACK * height });
    this.scale = Math.min((width / 2 - MARGIN) / this.world.xMax, tall);
    const colours = getColours();
    context.fillStyle = colours.field;
    context.fillRect(0, 0, width, height);
    this.#limits(context, height, colours);
    const past = actor.trace.filter((_, index, { length }) => (length - index) % APART === 0).slice(-GHOSTS);
    past.forEach((position, index) => {
      const alpha = (0.2 * (index + 1)) / past.length;
      line(context, this.#top(position), this.#end(position, task), { colour: colours.seen, width: 6, alpha });
    });
    this.#cart(context, actor.position, task, colours);
    if (actor.last) this.#push(context, actor, task, colours);
    this.#words(context, actor.position, task, colours);
    this.floaters.draw(context, this.toPixels, colours.paper);
  }

  /** Let it be seen that the pole fell. */
  celebrate({ last }) {
    if (last.ended) this.floaters.add("fell", last.before, getColours().bad);
  }

  /** The pole's end can be dragged, which changes its length. */
  grab(pixels, task, { position }) {
    const end = this.#end(position, task);
    if (Math.hypot(pixels[0] - end[0], pixels[1] - end[1]) > HOLD) return null;
    const foot = this.#top(position);
    const { low, high } = this.world.taskBounds;
    const half = ([x, y]) => clip(Math.hypot(x - foot[0], y - foot[1]) / this.scale / 2, low[0], high[0]);
    return { words: "length changed", taskAt: (to) => [half(to), ...task.slice(1)] };
  }

  describe({ position: [x, , theta] }, [length, , , strength]) {
    const lean = `${Math.abs((theta * 180) / Math.PI).toFixed(0)} degrees ${theta < 0 ? "left" : "right"}`;
    const hidden = `The pole's half length is ${length.toFixed(2)}, the motor pushes with ${strength.toFixed(1)}.`;
    return `The cart is at ${x.toFixed(1)}, the pole leans ${lean}. ${hidden}`;
  }

  toPixels = (position) => this.#top(position);

  /** Where the pole stands on the cart. */
  #top([x]) {
    return [this.middle + x * this.scale, this.track - CART.height * this.scale];
  }

  #end(position, [length]) {
    const [x, y] = this.#top(position);
    const reach = 2 * length * this.scale;
    return [x + Math.sin(position[2]) * reach, y - Math.cos(position[2]) * reach];
  }

  #limits(context, height, { faint, bad, ink }) {
    const [left, right] = [-1, 1].map((side) => this.middle + side * this.world.xMax * this.scale);
    line(context, [left, this.track], [right, this.track], { colour: faint, width: 2 });
    for (const x of [left, right]) {
      line(context, [x, this.track - 26], [x, this.track + 8], { colour: bad, width: 2, dash: [4, 4] });
      write(context, "end", [x, this.track + 20], { colour: ink, size: 11 });
    }
  }

  #cart(context, position, task, { seen, paper, ink, hidden }) {
    const [x, y] = this.#top(position);
    const [width, height] = [CART.width * this.scale, CART.height * this.scale];
    context.fillStyle = ink;
    context.beginPath();
    context.roundRect(x - width / 2, y, width, height, 4);
    context.fill();
    line(context, [x, y], this.#end(position, task), { colour: seen, width: 9 });
    disc(context, [x, y], 5, { fill: paper, stroke: ink });
    disc(context, this.#end(position, task), 9, { fill: hidden, stroke: paper, width: 3 });
  }

  /** What pushes the cart, beside it. */
  #push(context, { last, position }, task, { hidden }) {
    const force = this.world.force(last.action, task);
    const [x, y] = this.#top(position);
    const middle = y + (CART.height * this.scale) / 2;
    const from = x + Math.sign(force) * ((CART.width * this.scale) / 2 + 4);
    arrow(context, [from, middle], [from + (force / 30) * 3 * this.scale, middle], { colour: hidden, width: 4, head: 10 });
  }

  #words(context, position, [length, , , strength], { hidden }) {
    const y = this.track + 42;
    write(context, `hidden: half length ${length.toFixed(2)}, push ${strength.toFixed(1)}`, [this.middle, y], { colour: hidden });
  }
}
