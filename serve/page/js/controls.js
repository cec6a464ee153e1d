// The buttons: time and meddling. They do what the lab is asked to.

import { SPEEDS } from "./clock.js";
import { byId } from "./dom.js";

const FREEZE = "Holds z still: the agent goes on acting, but what it finds out no longer changes how.";
const NO_SIGNAL = "Only a neuromodulated agent has this signal: choose one.";

export class Controls {
  #benchmark = null;

  constructor(lab) {
    this.lab = lab;
    byId("play").addEventListener("click", () => lab.toggle());
    byId("step").addEventListener("click", () => lab.stepOnce());
    byId("lock").addEventListener("click", () => lab.meddle((run) => run.setLocked(!run.locked)));
    byId("swap").addEventListener("click", () => lab.meddle((run) => this.#swap(run)));
    byId("new-task").addEventListener("click", () => lab.meddle((run) => run.newTask()));
    byId("reset").addEventListener("click", () => lab.meddle((run) => run.resetMemory()));
    byId("new-episode").addEventListener("click", () => lab.meddle((run) => run.newEpisode()));
    byId("speed").addEventListener("input", () => this.#setSpeed());
    this.setSpeed(lab.clock.speed);
    for (const button of document.querySelectorAll("#meddle button")) this.#hint(button);
  }

  /** A run begins, or none is there. */
  enable(experiment, benchmark) {
    this.#benchmark = benchmark;
    const ids = ["play", "step", "swap", "new-task", "reset", "new-episode"];
    for (const id of ids) byId(id).disabled = experiment === null;
    const modulated = experiment?.actors.some(({ kind }) => kind === "nmn") ?? false;
    byId("lock").disabled = !modulated;
    byId("lock-help").textContent = modulated || !experiment ? FREEZE : NO_SIGNAL;
    byId("swap").hidden = !benchmark?.swap;
    byId("swap").textContent = benchmark?.swap?.label ?? "";
    byId("swap-help").textContent = benchmark?.swap?.help ?? "";
    byId("drag-help").textContent = benchmark?.dragging ?? "";
    this.#showHint("drag-help");
  }

  showPlaying(playing) {
    byId("play").textContent = playing ? "Pause" : "Play";
    byId("readout").setAttribute("aria-live", playing ? "off" : "polite"); // single steps are told
  }

  showLocked(locked) {
    byId("lock").setAttribute("aria-pressed", locked);
    byId("lock").textContent = locked ? "Free z" : "Freeze z";
  }

  /** `speed` is one of `SPEEDS`. */
  setSpeed(speed) {
    byId("speed").value = SPEEDS.indexOf(speed);
    this.#setSpeed();
  }

  #swap(run) {
    const { change, words } = this.#benchmark.swap;
    run.setTask(change(run.task, run.world), words);
  }

  /** What a button does stands beside the title while it is pointed at or focused; else, what can be dragged. */
  #hint(button) {
    const show = () => this.#showHint(button.getAttribute("aria-describedby"));
    const hide = () => this.#showHint("drag-help");
    for (const kind of ["pointerenter", "focus"]) button.addEventListener(kind, show);
    for (const kind of ["pointerleave", "blur"]) button.addEventListener(kind, hide);
  }

  #showHint(id) {
    byId("hint").textContent = byId(id).textContent;
  }

  #setSpeed() {
    const speed = SPEEDS[byId("speed").value];
    const words = speed === Infinity ? "as fast as it goes" : `${speed} ${speed === 1 ? "step" : "steps"} per second`;
    this.lab.clock.speed = speed;
    byId("speed").setAttribute("aria-valuetext", words);
    byId("speed-words").textContent = words;
  }
}
