// The task as sliders: what can be dragged in the picture, for the keyboard.

import { make } from "./dom.js";
import { signed } from "./drawing/floaters.js";

const DEGREES = 180 / Math.PI;

function place(legend, first, help = "Where its middle is, from −1 to 1.") {
  const words = "target moved";
  return {
    legend,
    help,
    fields: [
      { label: "across", index: first, low: -1, high: 1, step: 0.05, words },
      { label: "up", index: first + 1, low: -1, high: 1, step: 0.05, words },
    ],
  };
}

const FORMS = {
  b1: [
    {
      legend: "Bias",
      help: "What the reading is off by: the goal is the reading less the bias.",
      fields: [{ label: "hidden", index: 0, low: -10, high: 10, step: 0.1, words: "bias changed" }],
    },
  ],
  b2: [
    {
      legend: "Wind",
      help: "Where it blows to, in degrees clockwise from up.",
      fields: [{ label: "hidden", index: 2, low: -180, high: 180, step: 5, factor: DEGREES, words: "wind turned" }],
    },
    place("Target", 0),
  ],
  b3: [place("First target", 0), place("Second target", 2)],
};
/** The physics of hidden worlds, in the order of their tasks. */
const PHYSICS = {
  pendulum: [
    { legend: "Length", unit: "m", help: "Of the rod.", words: "length changed", always: true },
    { legend: "Mass", unit: "kg", help: "Of the rod.", words: "mass changed" },
    { legend: "Gravity", unit: "m/s²", help: "By which the rod falls.", words: "gravity changed" },
    { legend: "Motor", unit: "N m", help: "The most that it turns the rod with.", words: "motor changed", always: true },
  ],
  "cart-pole": [
    { legend: "Half length", unit: "m", help: "Of the pole.", words: "length changed", always: true },
    { legend: "Mass of the cart", unit: "kg", help: "What the motor has to move.", words: "cart's mass changed" },
    { legend: "Mass of the pole", unit: "kg", help: "What falls.", words: "pole's mass changed" },
    { legend: "Motor", unit: "N", help: "What it pushes the cart with.", words: "motor changed", always: true },
  ],
};

/** Sliders for what is hidden, and for length and motor in any case. */
function physicsForm(name, { hidden, ranges, taskBounds }) {
  return PHYSICS[name].flatMap(({ legend, unit, help, words, always }, index) => {
    if (!always && !hidden.includes(index)) return [];
    const low = Math.min(taskBounds.low[index], ranges[index][0]);
    const high = Math.max(taskBounds.high[index], ranges[index][1]);
    return [{ legend: `${legend} (${unit})`, help, fields: [{ label: "hidden", index, low, high, step: 0.01, words, plain: true }] }];
  });
}

export class TaskForm {
  #sliders = [];
  #shown = null;

  /** `name` is that of a benchmark; `onTask` is called as that of `Stage`. */
  constructor(holder, name, run, onTask) {
    const form = FORMS[name] ?? physicsForm(name, run.world);
    holder.replaceChildren(...form.map((group, index) => this.#group(group, index, () => run.task, onTask)));
  }

  show(task) {
    if (task === this.#shown) return;
    this.#shown = task;
    for (const { input, output, field } of this.#sliders) {
      const value = task[field.index] * (field.factor ?? 1);
      input.value = value;
      output.textContent = wordsOf(value, field);
    }
  }

  #group({ legend, help, fields }, index, getTask, onTask) {
    const id = `task-help-${index}`;
    const rows = fields.map((field) => {
      const { low: min, high: max, step } = field;
      const input = make("input", { type: "range", min, max, step, "aria-describedby": id });
      const output = make("output");
      const change = () => getTask().toSpliced(field.index, 1, Number(input.value) / (field.factor ?? 1));
      input.addEventListener("input", () => onTask(change()));
      input.addEventListener("change", () => onTask(getTask(), field.words));
      this.#sliders.push({ input, output, field });
      return make("label", {}, make("span", {}, field.label), input, output);
    });
    return make("fieldset", {}, make("legend", {}, legend), ...rows, make("p", { id, class: "unseen" }, help));
  }
}

function wordsOf(value, { factor, plain }) {
  if (plain) return value.toFixed(2);
  return factor ? `${Math.round(value)}°` : signed(Number(value.toFixed(2)));
}
