// The buttons: time and meddling. They do what the lab is asked to.

import { SPEEDS } from "./clock.js";
import { byId } from "./dom.js";

const FREEZE = "Holds z still: the agent goes on acting, but what it finds out no longer changes how.";
const NO_SIGNAL = "Only a neuromodulated agent has this signal: choose one.";

export class Controls {
  constructor(lab) {
    this.lab = lab;
    byId("play").addEventListener("click", () => lab.toggle());
    byId("step").addEventListener("click", () => lab.stepOnce());
    byId("lock").addEventListener("click", () => lab.meddle((run) => run.setLocked(!run.locked)));
    byId("swap").addEventListener("click", () => lab.meddle((run) => run.setTask(swapped(run.task), "targets swapped")));
    byId("new-task").addEventListener("click", () => lab.meddle((run) => run.newTask()));
    byId("reset").addEventListener("click", () => lab.meddle((run) => run.resetMemory()));
    byId("new-episode").addEventListener("click", () => lab.meddle((run) => run.newEpisode()));
    byId("speed").addEventListener("input", () => this.#setSpeed());
    byId("speed").value = SPEEDS.indexOf(lab.clock.speed);
    this.#setSpeed();
  }

  /** A run begins, or none is there. */
  enable(experiment) {
    const ids = ["play", "step", "swap", "new-task", "reset", "new-episode"];
    for (const id of ids) byId(id).disabled = experiment === null;
    const modulated = experiment?.actors.some(({ kind }) => kind === "nmn") ?? false;
    byId("lock").disabled = !modulated;
    byId("lock-help").textContent = modulated || !experiment ? FREEZE : NO_SIGNAL;
    byId("swap-control").hidden = experiment?.task.length !== 5;
  }

  showPlaying(playing) {
    byId("play").textContent = playing ? "Pause" : "Play";
    byId("readout").setAttribute("aria-live", playing ? "off" : "polite"); // single steps are told
  }

  showLocked(locked) {
    byId("lock").setAttribute("aria-pressed", locked);
    byId("lock").textContent = locked ? "Free z" : "Freeze z";
  }

  #setSpeed() {
    const speed = SPEEDS[byId("speed").value];
    const words = speed === Infinity ? "as fast as it goes" : `${speed} ${speed === 1 ? "step" : "steps"} per second`;
    this.lab.clock.speed = speed;
    byId("speed").setAttribute("aria-valuetext", words);
    byId("speed-words").textContent = words;
  }
}

/** The task of benchmark 3 with the other target as the good one. */
function swapped(task) {
  return [...task.slice(0, 4), -task[4]];
}
