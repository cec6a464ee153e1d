// The page begins here: find out what is served, ask for a key if one is needed, and start.

import { benchmarkOf } from "./benchmarks.js";
import { Catalogue } from "./catalogue.js";
import { Chooser } from "./chooser.js";
import { showCondition } from "./condition.js";
import { byId } from "./dom.js";
import { Gallery } from "./gallery.js";
import { Lab } from "./lab.js";
import { Server } from "./server.js";

const PAUSE = 1500;
const server = new Server();

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
  if (catalogue.agents.some((agent) => benchmarkOf(agent.env_id))) {
    const lab = new Lab(server, catalogue);
    new Chooser(catalogue.agents, (choice) => lab.begin(choice)).start();
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

start();
