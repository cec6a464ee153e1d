// What is said about the connection, at the top of the page and to screen readers.

import { byId } from "./dom.js";

/** `state` is "waiting", "connected", "lost", "forgotten" or "problem". */
export function showCondition(state, words) {
  const line = byId("condition");
  if (line.dataset.state === state && line.textContent === words) return;
  line.dataset.state = state;
  line.textContent = words;
}
