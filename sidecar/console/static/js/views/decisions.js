import * as api from "../api.js";
import { attr, h, put, text } from "../dom.js";
import { clock, int, plural } from "../format.js";
import { icon } from "../icons.js";
import { agentLink, scopeLink, txLink } from "../links.js";
import { say } from "../say.js";
import { poll, store } from "../store.js";
import { chip, listed, reason } from "../states.js";
import { table } from "../table.js";
import { page, trouble } from "./page.js";

const FIELDS = ["tx", "agent", "scope", "reason", "kind"];

// columns of a list of decisions.
export const columns = (open) => [
  { name: "Seq", width: "96px", right: true, sign: (r) => r.seq, draw: (c, r) => put(c, open
    ? h("button", { class: "button quiet small num", type: "button", title: "Show the record",
    onclick: () => open(r.seq) }, int(r.seq)) : int(r.seq)) },
  { name: "Seen", width: "84px", sign: (r) => r.at_ms ?? 0, draw: (c, r) => text(c, r.at_ms ? clock(r.at_ms)
    : "earlier") },
  { name: "Kind", width: "138px", sign: (r) => r.kind, draw: (c, r) => put(c, chip(r.kind)) },
  { name: "Transaction", width: "21%", broad: true, sign: (r) => r.tx ?? "",
    draw: (c, r) => put(c, r.tx ? txLink(r.tx) : "–") },
  { name: "Agent", width: "11%", sign: (r) => r.agent ?? "",
    draw: (c, r) => put(c, r.agent ? agentLink(r.agent) : "–") },
  { name: "What", wide: true, sign: (r) => r.seq, draw: (c, r) => put(c, about(r)) },
];

export function about(r) {
  const where = r.scope ? scopeLink(r.scope) : null;
  if (r.code) return [h("span", { class: "strong" }, r.code), " ", h("span", { class: "muted" }, reason(r.code)),
    where ? [" ", where] : null];
  if (r.waits) return [h("span", { class: "muted" }, "for "), txLink(r.waits), where ? [" ", where] : null];
  if (r.would) return h("span", { class: "muted" }, `would have been: ${r.would}`);
  if (r.writes > 1) return [where, h("span", { class: "muted" }, ` and ${r.writes - 1} more`)];
  return where;
}

// decisionsView shows every decision as it comes, or those that a filter picks.
export function decisionsView(ctx, { query }) {
  const pause = h("button", { class: "button", type: "button", "aria-pressed": "false" });
  const { root } = page("Decisions", null, pause);
  const problem = trouble();
  const inputs = Object.fromEntries(FIELDS.map((name) => [name, name === "kind"
    ? h("select", { name }, h("option", { value: "" }, "any"),
      (ctx.about?.kinds ?? []).map((k) => h("option", { value: k }, k)))
    : h("input", { name, type: "text", spellcheck: "false", autocomplete: "off", maxlength: 200,
      placeholder: name === "scope" ? "shard:/orders" : "any" })]));
  for (const name of FIELDS) inputs[name].value = query.get(name) ?? "";
  const filters = h("form", { class: "filters", "aria-label": "Filter", onsubmit: (e) => e.preventDefault(),
    oninput: () => changed() },
    FIELDS.map((name) => h("label", { class: "field" }, h("span", {}, { tx: "Transaction", agent: "Agent",
      scope: "Scope, and what overlaps it", reason: "Reason", kind: "Kind" }[name]), inputs[name])));
  const note = h("p", { class: "sub num" });
  const list = table({ label: "Decisions, newest first", key: (r) => r.seq, columns: columns(open),
    empty: { icon: "decisions", title: "No decision is here",
      text: "Either nothing was decided yet, or nothing that is remembered meets the filter. Older ones are in " +
        "the log:", code: "hence tail --after 0" } });
  root.append(problem.root, h("div", { class: "card" }, filters, list.root), h("div", { class: "below" }, note));
  let paused = false;
  let held = null; // rows while the reader looks closely, or has paused
  let picked = null; // what a filter picked on the server: { rows, more }
  let timer = 0;
  let asking = null;

  const filter = () => Object.fromEntries(FIELDS.map((name) => [name, inputs[name].value.trim()]));
  const filtered = () => FIELDS.some((name) => inputs[name].value.trim() !== "");
  const asked = (r) => inputs.kind.value !== "" || listed(r);
  const latest = () => (picked ? picked.rows : [...store.rows].reverse()).filter(asked);

  function changed() {
    clearTimeout(timer);
    timer = setTimeout(ask, 250);
  }

  // ask begins to ask for what the filter picks. Its first answer is shown even where the list stands still.
  function ask() {
    asking?.stop();
    asking = null;
    if (!filtered()) {
      problem.set(null);
      picked = null;
      renew();
      draw();
      return;
    }
    const wanted = { ...filter(), limit: 500 };
    let first = true;
    asking = poll(2000, (signal) => api.decisions(wanted, signal), (found) => {
      problem.set(null);
      picked = found;
      if (first) renew();
      first = false;
      draw();
    }, (cause) => problem.set(cause));
  }

  // renew lets go of the rows that another filter picked.
  function renew() {
    held = paused ? latest() : null;
  }

  function setPaused(on) {
    paused = on;
    attr(pause, "aria-pressed", String(on));
    put(pause, icon(on ? "play" : "pause"), on ? "Go on" : "Pause");
    held = on ? held ?? latest() : null;
    say(on ? "Paused" : "Going on");
    draw();
  }

  function draw() {
    const close = !paused && list.busy();
    if (close && !held) held = latest();
    if (!close && !paused) held = null;
    const rows = held ?? latest();
    list.set(rows);
    if (held) {
      const newest = held[0]?.seq ?? 0;
      const fresh = picked ? picked.rows.filter((r) => r.seq > newest).length : store.seq - newest;
      const still = paused ? "Paused" : "Standing still while you are in the list";
      text(note, `${still}: ${plural(fresh, "newer decision")}.`);
    } else if (picked) {
      text(note, `${picked.more ? "The newest " : ""}${plural(rows.length, "decision")} of those that the console ` +
        "remembers meet the filter.");
    } else {
      const missed = store.skipped > 0 ? `; ${int(store.skipped)} went by too fast to be listed here` : "";
      text(note, `The newest ${plural(rows.length, "decision")}${missed}.`);
    }
  }

  async function open(seq) {
    try {
      const { event } = await api.decision(seq);
      const dialog = h("dialog", { "aria-labelledby": "record", onclose: () => dialog.remove() },
        h("div", { class: "form" },
        h("h2", { id: "record" }, `Decision ${int(seq)}`), h("pre", { tabindex: 0, class: "record" },
          JSON.stringify(event, null, 2)),
        h("div", { class: "row" }, h("button", { class: "button", type: "button", onclick: () => dialog.close() },
          "Close"))));
      dialog.classList.add("wide");
      document.body.append(dialog);
      dialog.showModal();
    } catch (cause) {
      problem.set(cause);
    }
  }

  pause.addEventListener("click", () => setPaused(!paused));
  put(pause, icon("pause"), "Pause");
  if (filtered()) ask();
  if (query.get("seq")) open(query.get("seq"));
  draw();
  return { root, title: "Decisions", update: draw, stop: () => {
    clearTimeout(timer);
    asking?.stop();
  } };
}
