import * as api from "../api.js";
import { h, put, text } from "../dom.js";
import { int, plural, span } from "../format.js";
import { scopeLink, seqLink, txLink } from "../links.js";
import { poll } from "../store.js";
import { table } from "../table.js";
import { choices, page, trouble } from "./page.js";

const refused = (r) => r.refused + r.would;

// contendedTable lists scopes by how often something was refused there.
export function contendedTable(props) {
  return table({ label: "Scopes by refusals", key: (r) => r.scope, ...props,
    columns: [
      { name: "Scope", width: "26%", wide: true, sign: (r) => r.scope, draw: (c, r) => put(c, scopeLink(r.scope)) },
      { name: "Refused", width: "92px", right: true, sign: (r) => `${refused(r)}/${r.would}`,
        draw: (c, r) => text(c, r.would > 0 ? `${int(refused(r))} (${int(r.would)} only observed)` : int(r.refused)) },
      { name: "Waits", width: "76px", right: true, sign: (r) => r.waits, draw: (c, r) => text(c, int(r.waits)) },
      { name: "Agents", width: "80px", right: true, sign: (r) => r.agents, draw: (c, r) => text(c, int(r.agents)) },
      { name: "Why", width: "22%", sign: (r) => JSON.stringify(r.codes), draw: (c, r) => {
        c.title = codesOf(r);
        text(c, codesOf(r));
      } },
      { name: "The last one", wide: true, sign: (r) => r.last[0]?.seq ?? 0, draw: (c, r) => put(c, lastOf(r)) },
    ] });
}

const codesOf = (r) => Object.entries(r.codes).sort((a, b) => b[1] - a[1]).map(([code, n]) => `${code} ${int(n)}`)
  .join(", ") || "–";

function lastOf(r) {
  const last = r.last[0];
  if (!last) return "–";
  return [last.tx ? txLink(last.tx) : seqLink(last.seq), last.by ? [" by ", txLink(last.by)] : last.by_seq
    ? [" by ", seqLink(last.by_seq)] : null];
}

// within says which time figures are of.
export const within = (seconds) => `in the last ${span(seconds * 1000)}`;

// contendedView lists what is fought over.
export function contendedView() {
  const choice = choices("Show the last", [60, 120, 300].map((n) => [n, span(n * 1000)]), 120, () => asking.now());
  const { root } = page("Fought over",
    "Scopes at which something was refused or had to wait, the most refusals first.", choice.root);
  const problem = trouble();
  const note = h("p", { class: "sub num", role: "status" });
  const found = contendedTable({ least: 900, empty: { icon: "contended", title: "Nothing is fought over",
    text: "In this time nothing was refused at a scope, and nothing had to wait. Choose a longer time, or see all " +
      "scopes under Scopes." } });
  root.append(problem.root, h("div", { class: "card" }, h("header", {}, note), found.root));
  const asking = poll(2000, (signal) => api.window_(choice.value(), signal), (v) => {
    problem.set(null);
    if (!found.busy()) found.set(v.contended);
    text(note, noteOf(v));
  }, problem.set);
  return { root, title: "Fought over", stop: asking.stop };
}

// noteOf says what the list is of, and what is not in it.
export function noteOf(v) {
  const parts = [`${plural(v.refusals, "refusal")} ${within(v.seconds)}`];
  if (v.nameless > 0) parts.push(`${int(v.nameless)} of them ${v.nameless === 1 ? "names" : "name"} no scope`);
  if (v.more > 0) parts.push(`${plural(v.more, "further scope")} not listed`);
  if (v.listed_ms < v.seconds * 1000) parts.push(`only the newest ${span(v.listed_ms)} are remembered one by one`);
  return parts.join("; ");
}
