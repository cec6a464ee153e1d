// The pictures of the actors' worlds, and dragging in them.

import { createView } from "./drawing/index.js";
import { make } from "./dom.js";

export class Stage {
  #experiment;
  #onTask;
  #views;
  #held = null;

  /** `onTask` is called with each task that dragging makes, and at its end with words for it. */
  constructor(holder, experiment, onTask) {
    this.#experiment = experiment;
    this.#onTask = onTask;
    const canvases = experiment.actors.map(() => make("canvas", { role: "img" }));
    this.#views = canvases.map((canvas) => createView(canvas, experiment.world));
    holder.replaceChildren(
      ...experiment.actors.map(({ name }, index) => {
        const shape = this.#views[index].flat ? "flat" : null;
        return make("figure", { class: shape }, make("figcaption", {}, name), canvases[index]);
      }),
    );
    canvases.forEach((canvas, index) => this.#listen(canvas, index));
  }

  draw() {
    const { actors, task } = this.#experiment;
    this.#views.forEach((view, index) => view.draw(actors[index], task));
  }

  /** Let the last step's rewards float. */
  celebrate() {
    this.#views.forEach((view, index) => view.celebrate(this.#experiment.actors[index]));
  }

  get busy() {
    return this.#views.some(({ floaters }) => floaters.busy);
  }

  /** Say in words what the pictures show. */
  describe() {
    const { actors, task } = this.#experiment;
    this.#views.forEach((view, index) => view.canvas.setAttribute("aria-label", view.describe(actors[index], task)));
  }

  #listen(canvas, index) {
    canvas.addEventListener("pointerdown", (event) => this.#grab(event, index));
    canvas.addEventListener("pointermove", (event) => this.#move(event, index));
    for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, () => this.#drop(canvas));
    // A finger that holds something does not scroll the page; any other does.
    const keep = (event) => this.#held && event.preventDefault();
    canvas.addEventListener("touchmove", keep, { passive: false });
    canvas.addEventListener(
      "touchstart",
      (event) => this.#under(event.touches[0], index) && event.preventDefault(),
      { passive: false },
    );
  }

  #under(event, index) {
    const { actors, task } = this.#experiment;
    const view = this.#views[index];
    return view.grab(pixelsOf(event, view.canvas), task, actors[index]);
  }

  #grab(event, index) {
    this.#held = this.#under(event, index);
    if (!this.#held) return;
    const { canvas } = this.#views[index];
    canvas.setPointerCapture(event.pointerId);
    canvas.classList.add("holding");
  }

  #move(event, index) {
    const { canvas } = this.#views[index];
    if (!this.#held) {
      canvas.classList.toggle("over", this.#under(event, index) !== null);
      return;
    }
    this.#held.moved = true;
    this.#onTask(this.#held.taskAt(pixelsOf(event, canvas)));
  }

  #drop(canvas) {
    if (this.#held?.moved) this.#onTask(this.#experiment.task, this.#held.words);
    this.#held = null;
    canvas.classList.remove("holding");
  }
}

function pixelsOf({ clientX, clientY }, canvas) {
  const { left, top } = canvas.getBoundingClientRect();
  return [clientX - left, clientY - top];
}
