import * as api from "../api.js";
import { h, put } from "../dom.js";
import { int, plural } from "../format.js";
import { agentLink, list as listOf, scopeLink, seqLink, txLink } from "../links.js";
import { poll } from "../store.js";
import { nothingHere } from "../table.js";
import { notice, page, trouble } from "./page.js";

// anomaliesView shows what isolation would have prevented among the last operations, and the level that this leaves.
export function anomaliesView() {
  const { root } = page("Anomalies",
    "What isolation would have prevented among the last operations of the workspace. One that enforces at level L4 " +
      "has none; one that observes shows here what enforcing would have stopped.");
  const problem = trouble();
  const body = h("div", { class: "stack" });
  root.append(problem.root, body);
  let sign = "";
  const asking = poll(4000, api.anomalies, (v) => {
    problem.set(null);
    const now = JSON.stringify(v);
    if (now === sign) return;
    sign = now;
    put(body, v.off ? notice(`${v.off}.`, "calm") : [v.level ? levelCard(v.level) : notice(v.problem),
      v.items.length === 0 ? h("div", { class: "card" }, nothingHere({ icon: "committed", title: "Nothing was found",
        text: "Findings are listed here as they are made, newest first." })) : v.items.map(card)]);
  }, problem.set);
  return { root, title: "Anomalies", stop: asking.stop };
}

const levels = (l) => (l.least === l.most ? `L${l.most}` : `L${l.least} to L${l.most}`);

function levelCard(l) {
  const found = l.kinds.filter((k) => k.certain + k.possible > 0);
  return h("article", { class: "card", "aria-label": "Level" },
    h("header", {}, h("h2", {}, `Level ${levels(l)}`), h("span", { class: "sub num" },
      `${plural(l.operations, "operation")} up to seq ${int(l.seq)}`)),
    h("div", { class: "body" }, h("dl", { class: "facts" },
      fact("None of", l.point_most), fact("Window", `the last ${plural(l.window, "operation")}`),
      fact("Spanning", `${plural(l.spanning, "operation")} began before the window`),
      l.own_overlaps > 0 ? fact("Own overlaps", `${int(l.own_overlaps)}: one agent did both, which is no A1`) : null,
      fact("Serializable", l.serializable ? "yes" : "no"),
      found.map((k) => fact(k.kind, `${k.title}: ${int(k.certain)}${k.possible > 0
        ? `, and ${int(k.possible)} possible` : ""}`)),
      l.undecided.map((u) => fact(`${u.kind}, undecided`, `${int(u.count)} ${u.why}`)))));
}

function card(a) {
  return h("article", { class: "card", "aria-label": `${a.kind}, ${a.title}` },
    h("header", {}, h("h2", {}, a.kind), h("span", { class: "sub" }, a.title, a.certain ? "" : ", possible"),
      seqLink(a.seq)),
    h("div", { class: "body" }, h("p", {}, a.sentence), h("dl", { class: "facts" },
      fact("Operations", listOf(a.operations, (o) => [txLink(o.tx), " of ", agentLink(o.agent)])),
      a.cell ? fact("Where", a.cell.includes(":/") ? scopeLink(a.cell) : a.cell) : null,
      a.would ? fact("Enforcing would say", h("code", {}, a.would)) : null)));
}

const fact = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
