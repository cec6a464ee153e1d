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

export class TaskForm {
  #sliders = [];
  #shown = null;

  /** `onTask` is called as that of `Stage`; `getTask` gives the present task. */
  constructor(holder, name, getTask, onTask) {
    holder.replaceChildren(...FORMS[name].map((group, index) => this.#group(group, index, getTask, onTask)));
  }

  show(task) {
    if (task === this.#shown) return;
    this.#shown = task;
    for (const { input, output, field } of this.#sliders) {
      const value = task[field.index] * (field.factor ?? 1);
      input.value = value;
      output.textContent = field.factor ? `${Math.round(value)}°` : signed(Number(value.toFixed(2)));
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
    return make("fieldset", {}, make("legend", {}, legend), ...rows, make("p", { id }, help));
  }
}
