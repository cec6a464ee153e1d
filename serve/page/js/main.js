// The page begins here: find out what is served, ask for a key if one is needed, and start.

import { benchmarkOf } from "./benchmarks.js";
import { Catalogue } from "./catalogue.js";
import { Chooser } from "./chooser.js";
import { showCondition } from "./condition.js";
import { byId } from "./dom.js";
import { keepRun, takeRun } from "./kept_run.js";
import { Gallery } from "./gallery.js";
import { Lab } from "./lab.js";
import { Server } from "./server.js";

const PAUSE = 1500;
const server = new Server();
let lab = null;
/** The run that a reload interrupted, until it goes on. */
let kept = takeRun();

async function start() {
  const catalogue = new Catalogue(server);
  try {
    await catalogue.load();
  } catch (error) {
    if (error.status === 401) return askForKey();
    showCondition("lost", `${error.message} Trying again.`);
    setTimeout(start, PAUSE);
    return;
  }
  byId("key-form").hidden = true;
  if (catalogue.agents.some((agent) => benchmarkOf(agent))) {
    lab = new Lab(server, catalogue);
    const chooser = new Chooser(catalogue.agents, (choice, before) => lab.begin(choice, before));
    chooser.start(kept);
    kept = null;
  } else {
    for (const part of document.querySelectorAll('[data-needs="world"]')) part.hidden = true;
    showCondition("problem", "None of the agents served plays a world of this page. They are shown below.");
  }
  new Gallery(byId("gallery"), server, catalogue);
}

function askForKey() {
  const wrong = server.key !== "";
  showCondition("problem", wrong ? "The server does not know this key." : "This server needs an API key.");
  byId("key-form").hidden = false;
  byId("key").focus();
}

byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  server.key = byId("key").value.trim();
  start();
});

addEventListener("pagehide", () => {
  const run = lab?.keep() ?? kept;
  lab?.leave();
  if (run) keepRun(run);
});
// A browser that shows a page again as it left it has closed its connections.
addEventListener("pageshow", ({ persisted }) => persisted && location.reload());

start();
