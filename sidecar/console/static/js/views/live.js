import { attr, h, put, text } from "../dom.js";
import { age, int, plural, span } from "../format.js";
import { agentLink, scopeLink, txLink } from "../links.js";
import { store } from "../store.js";
import { chip, reason, why } from "../states.js";
import { table } from "../table.js";
import { page } from "./page.js";

const states = ["open", "waiting", "sealed", "settling", "orphan", "retracting"];

// ageOf is how long a transaction has been there, in ms, by the best that is known.
export function ageOf(t, now) {
  if (t.began_ms) return now - t.began_ms;
  return t.age_ticks === undefined ? NaN : t.age_ticks * 250;
}

const ageText = (t, now) => (t.began_ms || t.age_ticks === undefined ? "" : "≈ ") + age(ageOf(t, now));

const idle = { open: "nothing: its agent reads and acts", sealed: "nothing: its decision is on the way",
  settling: "its sidecar, which settles it",
  orphan: "a sidecar to settle it", retracting: "its turn to be undone" };

export function waitsText(t) {
  const first = t.waits?.[0];
  if (!first) return h("span", { class: "muted" }, idle[t.state] ?? "");
  const more = t.waits.length > 1 ? ` and ${t.waits.length - 1} more` : "";
  const other = first.tx && first.tx !== t.tx;
  const says = h("span", { class: "muted" }, first.scope ? first.why.replaceAll("_", " ") : why(first.why), more);
  return h("div", { class: "two" }, h("div", {}, other ? txLink(first.tx) : "itself"),
    h("div", {}, first.scope ? [scopeLink(first.scope), " "] : null, says));
}

// liveView lists what is not final, oldest first: rows leave anywhere and come at the end, so that nothing jumps.
export function liveView(ctx) {
  const { root, head } = page("Live transactions",
    "All transactions that are not final, oldest first, including those that only their sidecar knows yet.");
  let wanted = "";
  const note = h("p", { class: "sub num", role: "status" });
  const buttons = new Map();
  const filter = h("div", { class: "choices", role: "group", "aria-label": "Show states" },
    ["", ...states].map((state) => {
    const n = h("span", { class: "num" }, "");
    const b = h("button", { class: "button small", type: "button", "aria-pressed": state === "" ? "true" : "false",
      onclick: () => {
      wanted = state;
      for (const [k, v] of buttons) attr(v.b, "aria-pressed", k === wanted ? "true" : "false");
      draw();
    } }, state === "" ? "all" : state, n);
    buttons.set(state, { b, n });
    return b;
  }));
  const now = () => store.now();
  const list = table({
    label: "Live transactions", least: 1080,
    key: (t) => t.tx,
    columns: [
      { name: "Transaction", width: "190px", broad: true, sign: (t) => t.tx, draw: (c, t) => put(c, txLink(t.tx)) },
      { name: "State", width: "128px", sign: (t) => t.state, draw: (c, t) => put(c, chip(t.state)) },
      { name: "Age", width: "92px", right: true, sign: (t) => ageText(t, now()),
        draw: (c, t) => text(c, ageText(t, now())) },
      { name: "Waits for", wide: true,
        sign: (t) => `${t.state}|${t.code ?? ""}|${t.waits?.map((w) => w.tx + w.why + w.scope).join()}`,
        draw: (c, t) => put(c, t.code && !t.waits?.length
          ? h("span", { class: "muted" }, `${t.code}: ${reason(t.code)}`) : waitsText(t)) },
      { name: "Agent", width: "104px", sign: (t) => t.agent, draw: (c, t) => put(c, agentLink(t.agent)) },
      { name: "Mode", width: "92px", sign: (t) => t.mode ?? "", draw: (c, t) => text(c, t.mode ?? "–") },
      { name: "Holds", width: "66px", right: true, sign: (t) => t.holds, draw: (c, t) => text(c, t.holds || "–") },
      { name: "Held calls", width: "92px", right: true, sign: (t) => t.held,
        draw: (c, t) => text(c, t.held || "–") },
      { name: "Deadline", width: "108px", right: true, sign: (t) => t.left_ticks ?? "",
        draw: (c, t) => text(c, t.left_ticks ? `≈ ${span(t.left_ticks * 250)}` : "–") },
    ],
    empty: { icon: "live", title: "Nothing is under way",
      text: "As soon as an agent begins a transaction it is listed here. Begin one from another terminal:",
      code: 'curl -s -H "Authorization: Bearer $HENCE_TOKEN" --json "{}" \\\n' +
        `  $HENCE_URL/v1/workspaces/${ctx.about.workspace}/tx` },
  });
  root.append(h("div", { class: "card" }, h("header", {}, filter, h("span", { class: "tools" }, note)), list.root));
  let rows = [];
  let cut = false;
  function draw() {
    for (const [state, { n }] of buttons) {
      const k = state === "" ? rows.length : rows.filter((t) => t.state === state).length;
      text(n, int(k));
    }
    list.set(wanted === "" ? rows : rows.filter((t) => t.state === wanted));
    const waiting = rows.filter((t) => t.waits?.length > 0).length;
    text(note, `${cut ? "the first " : ""}${plural(rows.length, "transaction")}, ${plural(waiting, "waits", "wait")}`);
  }
  const take = (live) => {
    rows = live.transactions;
    cut = live.truncated;
    draw();
  };
  if (ctx.live) take(ctx.live);
  else draw();
  const timer = setInterval(draw, 1000);
  return { root, title: "Live transactions", live: take, stop: () => clearInterval(timer), head };
}
