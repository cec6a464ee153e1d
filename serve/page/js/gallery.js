// The agents as cards: what they are, scores, learning curves, files, code.

import { benchmarkOf } from "./benchmarks.js";
import { pathOf } from "./catalogue.js";
import { addressOf } from "./server.js";
import { drawCurves } from "./charts/curve_chart.js";
import { make } from "./dom.js";
import { snippetsOf } from "./snippets.js";

const KINDS = {
  nmn: "Neuromodulated: its memory sets a signal that scales and shifts the layers that act.",
  rnn: "Recurrent, the baseline: its memory acts directly.",
  film: "FiLM: its memory, which sees the present too, scales and shifts the layers that act.",
  hyper: "Hypernetwork: its memory generates the weights of the layers that act.",
};
const FILES = ["policy.onnx", "README.md", "scores.json", "curves.csv", "golden.npz"];

export class Gallery {
  #catalogue;
  #server;

  constructor(holder, server, catalogue) {
    this.#catalogue = catalogue;
    this.#server = server;
    holder.replaceChildren(...catalogue.agents.map((agent) => this.#card(agent)));
  }

  #card(agent) {
    const files = FILES.filter((file) => this.#catalogue.published[agent.name]?.files[file]);
    const parts = [
      make("h3", {}, agent.name),
      make("p", {}, `${benchmarkOf(agent)?.title ?? agent.env_id}. ${KINDS[agent.kind] ?? ""}`),
    ];
    const scores = this.#catalogue.published[agent.name]?.scores;
    if (scores) parts.push(scoreTable(scores));
    if (files.length > 0) parts.push(make("ul", { class: "downloads" }, ...files.map((file) => this.#download(agent, file))));
    if (files.includes("README.md")) parts.push(this.#opened("Card", (body) => this.#fillCard(agent, body)));
    if (files.includes("curves.csv")) parts.push(this.#opened("Learning curves", (body) => this.#fillCurves(agent, body)));
    parts.push(this.#opened("Use it from Python, curl, JavaScript", async (body) => fillSnippets(agent, body)));
    return make("article", { class: "card", "aria-label": agent.name }, ...parts);
  }

  /** A link; a server with keys wants them for files too, which a link cannot bear. */
  #download({ name }, file) {
    const { bytes } = this.#catalogue.published[name].files[file];
    const words = `${file} (${Math.ceil(bytes / 1000)} kB)`;
    const link = make("a", { href: addressOf(pathOf(name, file)), download: `${name}-${file}` }, words);
    link.addEventListener("click", async (event) => {
      if (!this.#server.key || link.href.startsWith("blob:")) return;
      event.preventDefault();
      link.href = URL.createObjectURL(await this.#catalogue.blob(name, file));
      link.click();
    });
    return make("li", {}, link);
  }

  /** Details that are filled when they are first opened. */
  #opened(summary, fill) {
    const body = make("div");
    const details = make("details", {}, make("summary", {}, summary), body);
    details.addEventListener(
      "toggle",
      () => fill(body).catch((error) => body.replaceChildren(make("p", {}, error.message))),
      { once: true },
    );
    return details;
  }

  async #fillCard({ name }, body) {
    const text = ((await this.#catalogue.text(name, "README.md")) ?? "It cannot be had.").replace(/^---[\s\S]*?\n---\n/, "");
    body.replaceChildren(make("pre", { tabindex: 0, "aria-label": `Card of ${name}` }, text));
  }

  async #fillCurves({ name }, body) {
    const scores = await this.#catalogue.scores(name);
    const { optimal_discounted_return: optimal, known_task_discounted_return: known } = scores?.references ?? {};
    const chart = make("div", { class: "chart", role: "img" });
    const help = "Validated discounted return over episodes of training, one line per seed; dotted what is possible.";
    body.replaceChildren(make("p", {}, help), chart);
    const lines = drawCurves(chart, (await this.#catalogue.text(name, "curves.csv")) ?? "", optimal ?? known ?? null);
    chart.setAttribute("aria-label", "Learning curves");
    body.append(make("p", {}, `${lines.join("; ")}.`));
  }
}

function scoreTable({ deterministic, sampled }) {
  const rows = Object.entries({ deterministic, sampled }).filter(([, score]) => score);
  const head = ["action", "return", "95\u00a0% interval", "share"].map((name) => make("th", { scope: "col" }, name));
  const body = rows.map(([mode, score]) => {
    const [low, high] = score.discounted_return_interval ?? [];
    const share = score.share === undefined ? "–" : `${(100 * score.share).toFixed(1)}\u00a0%`;
    const interval = low === undefined ? "–" : `${low.toFixed(0)}\u00a0to\u00a0${high.toFixed(0)}`;
    const cells = [score.discounted_return.toFixed(0), interval, share].map((text) => make("td", {}, text));
    return make("tr", {}, make("th", { scope: "row" }, mode), ...cells);
  });
  const caption = make("caption", { class: "unseen" }, "Scores");
  return make("table", {}, caption, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body));
}

function fillSnippets(agent, body) {
  const snippets = snippetsOf(agent, addressOf("").slice(0, -1));
  body.replaceChildren(
    ...Object.entries(snippets).map(([language, code]) => {
      const label = `${language} for ${agent.name}`;
      const pre = make("pre", { tabindex: 0, "aria-label": label }, code);
      const button = make("button", { type: "button", "aria-label": `Copy ${label}` }, "Copy");
      button.addEventListener("click", () => copy(pre, button));
      return make("div", {}, make("div", { class: "snippet-head" }, make("strong", {}, language), button), pre);
    }),
  );
}

/** The clipboard is closed to pages without TLS on other machines; then the text is selected for Ctrl+C. */
async function copy(pre, button) {
  try {
    await navigator.clipboard.writeText(pre.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(pre);
    button.textContent = "Selected";
  }
  setTimeout(() => (button.textContent = "Copy"), 1500);
}
