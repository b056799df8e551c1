// Questions to the console's own server; there is no other.

export class Problem extends Error {
  constructor(status, code, detail) {
    super(detail);
    this.status = status;
    this.code = code;
  }
}

const listeners = new Set();
export const onUnauthorized = (f) => listeners.add(f);

async function ask(method, path, body, signal) {
  let response;
  try {
    response = await fetch(path, {
      method, signal, credentials: "same-origin", cache: "no-store",
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (cause) {
    if (cause.name === "AbortError") throw cause;
    throw new Problem(0, "unreachable", "the console does not answer: is it still running?");
  }
  const content = await response.text();
  let value = null;
  try {
    value = content === "" ? null : JSON.parse(content);
  } catch {
    throw new Problem(response.status, "unreadable", "the console answered something that is not JSON");
  }
  if (response.ok) return value;
  if (response.status === 401 && path !== "/login") listeners.forEach((f) => f());
  throw new Problem(response.status, value?.code ?? "unknown", value?.detail ?? response.statusText);
}

const seg = encodeURIComponent;
export const get = (path, signal) => ask("GET", path, undefined, signal);
export const login = (what) => ask("POST", "/login", what);
export const session = () => get("/session");
export const logout = () => ask("POST", "/logout", {});
export const about = () => get("/api/about");
export const live = (signal) => get("/api/live", signal);
export const gate = (signal) => get("/api/gate", signal);
export const window_ = (seconds, signal) => get(`/api/window?seconds=${seconds}`, signal);
export const lanes = (seconds, signal) => get(`/api/lanes?seconds=${seconds}`, signal);
export const residue = (signal) => get("/api/residue", signal);
export const anomalies = (signal) => get("/api/anomalies", signal);
export const scopes = (prefix, signal) => get(`/api/scopes?prefix=${seg(prefix)}`, signal);
export const classes = (signal) => get("/api/classes", signal);
export const search = (q, signal) => get(`/api/search?q=${seg(q)}`, signal);
export const decision = (seq) => get(`/api/decisions/${seq}`);
export const tx = (id, content, signal) => get(`/api/tx/${seg(id)}${content ? "?content=1" : ""}`, signal);
export const cone = (id) => get(`/api/tx/${seg(id)}/cone`);
export const retract = (id, reason) => ask("POST", `/api/tx/${seg(id)}/retract`, { reason });
export const word = (id, index, yes, token, args) => ask("POST",
  `/api/effects/${seg(id)}/${index}/${yes ? "approve" : "deny"}`, { token, args_sha256: args });
export const retryResidue = (id, index, allowed) => ask("POST", `/api/residue/${seg(id)}/${index}/retry`, allowed);
export const acceptResidue = (id, index, note) => ask("POST", `/api/residue/${seg(id)}/${index}/accept`, { note });
export const exportPath = (id, content) => `/api/tx/${seg(id)}/export${content ? "?content=1" : ""}`;

export function decisions(filter, signal) {
  const q = new URLSearchParams(Object.entries(filter).filter(([, v]) => v));
  return get(`/api/decisions?${q}`, signal);
}

export const txHref = (id) => `#/tx/${seg(id)}`;
