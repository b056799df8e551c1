import * as api from "../api.js";
import { h, put, text } from "../dom.js";
import { age, clock, plural } from "../format.js";
import { poll, store } from "../store.js";
import { chip } from "../states.js";
import { nothingHere } from "../table.js";
import { txLink } from "./live.js";
import { page, trouble } from "./page.js";

// gateView shows the tool calls that wait for their transaction's commit, and those that left or were dropped.
export function gateView() {
  const { root } = page("Gate",
    "Calls that cannot be undone wait here. A commit lets them out in the order in which the agent asked for " +
      "them; an abort drops them.");
  const problem = trouble();
  const held = h("div", {});
  const passed = h("div", {});
  const heldNote = h("p", { class: "num" });
  root.append(problem.root, h("div", { class: "stack" },
    h("section", { class: "card", "aria-label": "Held" }, h("header", {}, h("h2", {}, "Held"), heldNote), held),
    h("section", { class: "card", "aria-label": "Lately through" },
      h("header", {}, h("h2", {}, "Lately through"), h("p", {}, "released, dropped or not sent, the newest first")), passed)));
  let sign = "";
  const asking = poll(1000, api.gate, (view) => {
    problem.set(null);
    const calls = view.held.reduce((n, r) => n + r.effects.filter((e) => ["held",
      "releasing"].includes(e.state)).length, 0);
    text(heldNote, `${plural(calls, "call")} of ${plural(view.held.length, "transaction")}`);
    const now = JSON.stringify([view.held, view.passed]) + Math.floor(store.now() / 1000);
    if (now === sign || root.contains(document.activeElement) && sign.slice(0, -10) === now.slice(0, -10)) return;
    sign = now;
    put(held, view.held.length > 0 ? rows(view.held, "Held calls", "Waiting", (e) => age(store.now() - e.at_ms))
      : nothingHere({ icon: "gate", title: "Nothing is held",
      text: "Calls of the classes irreversible and bufferable are held until their transaction commits. What each " +
        "tool is, the policy file says:",
      code: "hence dev --policy docs/examples/notes.yaml" }));
    put(passed, view.passed.length > 0 ? rows(view.passed, "Calls that are through", "At",
      (e) => clock(e.changed_ms)) : nothingHere({ icon: "released", title: "Nothing is through lately",
      text: "Calls that were released, dropped or not sent are listed here for as long as the console remembers their " +
        "transactions." }));
  }, problem.set);
  return { root, title: "Gate", stop: asking.stop };
}

function rows(list, label, when, time) {
  return h("div", { class: "table-scroll" }, h("table", { class: "free" },
    h("caption", { class: "hidden-text" }, label),
    h("colgroup", {}, ["22%", "150px", "52px", "15%", "128px"].map((w) => h("col", { width: w })), h("col"),
      h("col", { width: "110px" })),
    h("thead", {}, h("tr", {}, ["Transaction", "Stands", "Call", "Tool", "State", "What it moves",
      when].map((t, i) => h("th", { scope: "col", class: i === 6 ? "right" : null }, t)))),
    h("tbody", {}, list.slice(0, 200).flatMap((row) => row.effects.map((e, i) => h("tr",
      { class: i > 0 ? "same" : null },
      h("td", {}, i === 0 ? [txLink(row.tx), h("div", { class: "sub" }, `agent ${row.agent}`)]
        : h("span", { class: "hidden-text" }, row.tx)),
      h("td", {}, i === 0 ? chip(row.state) : null), h("td", { class: "num" }, String(e.index)),
        h("td", { class: "strong" }, e.tool), h("td", {}, chip(e.state)),
      h("td", {}, h("span", { class: "scope-list" }, (e.scopes ?? []).map((x) => h("code", {}, x))), e.detail
        ? h("div", { class: "sub" }, e.detail) : null),
      h("td", { class: "right" }, time(e))))))));
}
