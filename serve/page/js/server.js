// The server's HTTP interface: JSON in, JSON out, errors in words.

/** What the server said against a request: RFC 9457's `detail` is the message. */
export class Refusal extends Error {
  constructor({ detail, status, retry_after: retryAfter }) {
    super(detail ?? `The server answered with status ${status}.`);
    this.status = status;
    this.retryAfter = retryAfter ?? null;
  }

  /** Whether the session is not there any more. */
  get forgotten() {
    return this.status === 404 || this.status === 410;
  }
}

/** Nobody answered. */
export class Unreachable extends Error {}

/** The page may stand under a prefix of another server: paths of ours begin where the page does. */
export function addressOf(path) {
  return new URL(path.replace(/^\//, ""), new URL("../../", import.meta.url)).href;
}

export class Server {
  /** The API key, if the server needs one. It is kept here alone, in memory. */
  key = "";

  async request(method, path, body) {
    const response = await this.fetch(path, {
      method,
      ...(method === "POST" && { body: JSON.stringify(body ?? {}), headers: { "Content-Type": "application/json" } }),
    });
    return response.status === 204 ? null : response.json();
  }

  /** Like the browser's, with the key and with refusals as errors. */
  async fetch(path, options = {}) {
    const headers = { ...options.headers, ...(this.key && { Authorization: `Bearer ${this.key}` }) };
    let response;
    try {
      response = await fetch(addressOf(path), { ...options, headers });
    } catch {
      throw new Unreachable("The server does not answer.");
    }
    if (!response.ok) throw new Refusal({ status: response.status, ...(await response.json().catch(() => ({}))) });
    return response;
  }

  /** A WebSocket cannot have headers; the key travels as a subprotocol. */
  socket(path) {
    const url = new URL(addressOf(path));
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    return new WebSocket(url, this.key ? ["nmn", `bearer.${this.key}`] : []);
  }
}
