// Works out plans beside the page, which goes on drawing. A task comes in, its plan goes out.

import { solve } from "./solve.js";
import { WORLDS } from "../worlds/index.js";

let last = null;

addEventListener("message", ({ data: { envId, task } }) => {
  last = solve(WORLDS[envId], task, last?.after); // the last plan is a good guess of the next
  postMessage(last);
});
