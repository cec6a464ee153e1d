// The picture of benchmarks 2 and 3: the square without edges, targets, the agent and where it came from, the wind.

import { direction, MOVE, REACH, SPAWN_REACH, TARGET_RADIUS, TARGET_REACH, wrap } from "../worlds/plane.js";
import { clip } from "../worlds/numbers.js";
import { arrow, disc, fitCanvas, line, write } from "./canvas.js";
import { getColours } from "./colours.js";
import { Floaters, signed } from "./floaters.js";

const MARGIN = 6;
/** The compass lies in a corner that no target reaches. */
const COMPASS = { centre: [1.57, 1.57], radius: 0.37 };
const COPIES = [0, -1, 1].flatMap((i) => [0, -1, 1].map((j) => [2 * REACH * i, 2 * REACH * j]));

export class SquareView {
  flat = false;
  floaters = new Floaters();

  constructor(canvas, world) {
    Object.assign(this, { canvas, world });
    this.windy = "cone" in world;
  }

  draw(actor, task) {
    const { context, width } = fitCanvas(this.canvas);
    this.scale = (width - 2 * MARGIN) / (2 * REACH);
    const colours = getColours();
    this.#ground(context, colours);
    context.save();
    context.beginPath();
    context.rect(MARGIN, MARGIN, 2 * REACH * this.scale, 2 * REACH * this.scale);
    context.clip();
    this.#targets(context, task, colours);
    this.#trace(context, actor, colours);
    if (this.windy) this.#compass(context, task, colours);
    this.#agent(context, actor, colours);
    context.restore();
    this.floaters.draw(context, this.toPixels, colours.paper);
  }

  /** Let the reward of the last step float. */
  celebrate({ last }) {
    if (last.reward === 0) return;
    const colours = getColours();
    const size = last.reward === this.world.stepReward ? 11 : 16;
    this.floaters.add(signed(last.reward), last.before, last.reward > 0 ? colours.good : colours.bad, size);
  }

  /** What lies under a point (in pixels), as a function from where it is dragged to the task that makes; or null. */
  grab(pixels, task) {
    const point = this.#toPlane(pixels);
    if (this.windy && apart(point, COMPASS.centre) <= COMPASS.radius) {
      const turn = (to) => [task[0], task[1], Math.atan2(to[0] - COMPASS.centre[0], to[1] - COMPASS.centre[1])];
      return { words: "wind turned", taskAt: (to) => turn(this.#toPlane(to)) };
    }
    const targets = this.world.targets(task);
    const found = targets.findLastIndex((centre) => apart(point, centre) <= TARGET_RADIUS);
    if (found < 0) return null;
    const held = targets[found].map((x, i) => x - point[i]);
    const place = (to) => to.map((x, i) => clip(x + held[i], -TARGET_REACH, TARGET_REACH));
    return { words: "target moved", taskAt: (to) => task.toSpliced(2 * found, 2, ...place(this.#toPlane(to))) };
  }

  describe(actor, task) {
    const place = ([x, y]) => `(${x.toFixed(1)}, ${y.toFixed(1)})`;
    const targets = this.world.targets(task).map((centre, index) => {
      const kind = this.windy ? "the target" : (task[4] > 0) === (index === 0) ? "the good target" : "the bad target";
      return `${kind} at ${place(centre)}`;
    });
    const wind = this.windy ? `, the wind blows towards ${Math.round((task[2] * 180) / Math.PI)} degrees from up` : "";
    return `The agent is at ${place(actor.position)}, ${targets.join(", ")}${wind}.`;
  }

  toPixels = ([x, y]) => [MARGIN + (x + REACH) * this.scale, MARGIN + (REACH - y) * this.scale];

  #toPlane([x, y]) {
    return [(x - MARGIN) / this.scale - REACH, REACH - (y - MARGIN) / this.scale];
  }

  #ground(context, { field, spawn, faint }) {
    const side = 2 * REACH * this.scale;
    context.fillStyle = field;
    context.fillRect(MARGIN, MARGIN, side, side);
    Object.assign(context, { strokeStyle: spawn, lineWidth: 1 });
    context.strokeRect(...this.toPixels([-SPAWN_REACH, SPAWN_REACH]), 2 * SPAWN_REACH * this.scale, 2 * SPAWN_REACH * this.scale);
    context.save();
    context.strokeStyle = faint;
    context.setLineDash([7, 5]);
    context.strokeRect(MARGIN, MARGIN, side, side);
    context.restore();
  }

  #targets(context, task, colours) {
    const centres = this.world.targets(task);
    const rewards = this.windy ? [this.world.targetReward] : this.#rewards(task);
    centres.forEach((centre, index) => {
      const colour = rewards[index] > 0 ? colours.good : colours.bad;
      const [middle, radius] = [this.toPixels(centre), TARGET_RADIUS * this.scale];
      disc(context, middle, radius, { fill: colour, stroke: colour, alpha: 0.18 });
      if (rewards[index] < 0) this.#hatch(context, middle, radius, colour);
      write(context, signed(rewards[index]), middle, { colour, size: 14, weight: 700, backing: colours.paper });
    });
  }

  #rewards(task) {
    const { goodReward, badReward } = this.world;
    return task[4] > 0 ? [goodReward, badReward] : [badReward, goodReward];
  }

  /** What is bad is hatched, for those who cannot tell green from red. */
  #hatch(context, [x, y], radius, colour) {
    context.save();
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.clip();
    for (let shift = -2 * radius; shift < 2 * radius; shift += 9) {
      line(context, [x + shift - radius, y + radius], [x + shift + radius, y - radius], { colour, width: 1, alpha: 0.5 });
    }
    context.restore();
  }

  #trace(context, { trace, position }, { seen }) {
    const points = [...trace, position];
    trace.forEach((from, index) => {
      const alpha = 0.8 * ((index + 1) / trace.length) ** 1.5;
      const move = wrap(points[index + 1].map((x, i) => x - from[i]));
      const end = points[index + 1];
      if (Math.hypot(...move) > 2 * MOVE + 1e-6) return; // it appeared there
      for (const start of [from, end.map((x, i) => x - move[i])]) {
        line(context, this.toPixels(start), this.toPixels(start.map((x, i) => x + move[i])), { colour: seen, alpha });
      }
      disc(context, this.toPixels(from), 2, { fill: seen, alpha });
    });
  }

  #agent(context, { position, last, world }, { ink, seen, paper, hidden }) {
    const moved = last && !world.inTarget(last.before, last.task);
    for (const copy of COPIES) {
      const shifted = (point) => this.toPixels([point[0] + copy[0], point[1] + copy[1]]);
      if (moved) {
        const tip = last.before.map((x, i) => x + MOVE * direction(last.action[0])[i]);
        if (this.windy) this.#wedge(context, shifted(tip), MOVE, last.task[2], hidden);
        arrow(context, shifted(last.before), shifted(tip), { colour: ink, head: 7 });
      }
      disc(context, shifted(position), 0.085 * this.scale, { fill: seen, stroke: paper });
    }
  }

  #wedge(context, tip, length, main, colour) {
    context.save();
    Object.assign(context, { fillStyle: colour, globalAlpha: 0.3 });
    context.beginPath();
    context.moveTo(...tip);
    const middle = main - Math.PI / 2; // 0 is up, and angles turn clockwise on a canvas as they do in the task
    context.arc(...tip, length * this.scale, middle - this.world.cone, middle + this.world.cone);
    context.fill();
    context.restore();
  }

  #compass(context, task, colours) {
    const [middle, radius] = [this.toPixels(COMPASS.centre), COMPASS.radius];
    disc(context, middle, radius * this.scale, { fill: colours.paper, stroke: colours.faint, width: 1, alpha: 0.85 });
    this.#wedge(context, middle, radius, task[2], colours.hidden);
    const [x, y] = direction(task[2] / Math.PI);
    const tip = [COMPASS.centre[0] + 0.9 * radius * x, COMPASS.centre[1] + 0.9 * radius * y];
    arrow(context, middle, this.toPixels(tip), { colour: colours.hidden });
    write(context, "wind", [middle[0], middle[1] - (y > 0 ? -1 : 1) * 0.5 * radius * this.scale], { colour: colours.hidden, size: 12 });
  }
}

function apart(one, other) {
  return Math.hypot(one[0] - other[0], one[1] - other[1]);
}
