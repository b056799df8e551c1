import * as api from "../api.js";
import { h, put, text } from "../dom.js";
import { age, clock, plural } from "../format.js";
import { poll, store } from "../store.js";
import { chip } from "../states.js";
import { agentLink, list, scopeLink, txLink } from "../links.js";
import { freeTable, nothingHere } from "../table.js";
import { page, trouble } from "./page.js";

// gateView shows the tool calls that wait for their transaction's commit, and those that left or were dropped.
export function gateView() {
  const { root } = page("Gate",
    "Calls that cannot be undone wait here. A commit releases them in the order of their requests; " +
      "an abort drops them.");
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
      (e) => clock(e.changed_ms)) : nothingHere({ icon: "released", title: "No call passed the gate lately",
      text: "Calls that were released, dropped or not sent are listed here for as long as the console remembers their " +
        "transactions." }));
  }, problem.set);
  return { root, title: "Gate", stop: asking.stop };
}

function rows(found, label, when, time) {
  const columns = [{ name: "Transaction", width: "22%", broad: true }, { name: "Stands", width: "150px" },
    { name: "Call", width: "52px" }, { name: "Tool", width: "15%" }, { name: "State", width: "128px" },
    { name: "What it moves", wide: true }, { name: when, width: "110px", right: true }];
  return freeTable({ label, columns, rows: found.slice(0, 200).flatMap((row) => row.effects.map((e, i) => ({
    className: i > 0 ? "same" : null,
    cells: [i === 0 ? [txLink(row.tx), h("div", { class: "sub" }, "agent ", agentLink(row.agent))]
      : h("span", { class: "hidden-text" }, row.tx), i === 0 ? chip(row.state) : null,
    h("span", { class: "num" }, String(e.index)), h("span", { class: "strong" }, e.tool), chip(e.state),
    [list(e.scopes ?? [], (x) => scopeLink(x)), e.detail ? h("div", { class: "sub" }, e.detail) : null], time(e)],
  }))) });
}
