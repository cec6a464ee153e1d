// What the server serves and has published: agents, their files, scores and scale factors.

import { readModulation } from "./modulation.js";
import { Refusal } from "./server.js";

export class Catalogue {
  #server;
  #kept = new Map();

  constructor(server) {
    this.#server = server;
  }

  /** The served agents, and the published files of each by name. */
  async load() {
    this.agents = (await this.#server.request("GET", "v1/agents")).agents;
    this.published = (await this.#server.request("GET", "zoo/index.json")).agents;
  }

  /** An agent's scores, null where there are none. */
  scores(name) {
    return this.#keep(name, "scores.json", (response) => response.json());
  }

  /** An agent's modulated layers without the output layer, see `readModulation`; none of an RNN. */
  async hiddenLayers(name) {
    const read = async (response) => readModulation(new Uint8Array(await response.arrayBuffer())).slice(0, -1);
    return (await this.#keep(name, "policy.onnx", read)) ?? [];
  }

  text(name, file) {
    return this.#keep(name, file, (response) => response.text());
  }

  async blob(name, file) {
    return (await this.#server.fetch(pathOf(name, file))).blob();
  }

  /** What `read` makes of a file, which is fetched once; null if it is not to be had. */
  async #keep(name, file, read) {
    const path = pathOf(name, file);
    if (!this.published[name]?.files[file]) return null;
    try {
      if (!this.#kept.has(path)) this.#kept.set(path, this.#server.fetch(path).then(read));
      return await this.#kept.get(path);
    } catch (error) {
      this.#kept.delete(path);
      if (error instanceof Refusal) return null;
      throw error;
    }
  }
}

export function pathOf(name, file) {
  return `zoo/${name}/${file}`;
}
