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

const classWords = { contended_commutative: "commits only add", contended_noncommutative: "commits replace" };

// classesCard lists shards that commits of S-Bus clients met at, where such clients are served.
function classesCard() {
  const problem = trouble();
  const note = h("p", { class: "sub num", role: "status" });
  const cell = (name, of) => ({ name, width: "110px", right: true, sign: of, draw: (c, r) => text(c, int(of(r))) });
  const list = table({ label: "Shards by meetings of S-Bus commits", key: (r) => r.key, least: 700, columns: [
    { name: "Key", width: "34%", wide: true, sign: (r) => r.key, draw: (c, r) => {
      c.title = r.key;
      text(c, r.key);
    } },
    { name: "Class", width: "24%", sign: (r) => r.class, draw: (c, r) => text(c, classWords[r.class] ?? r.class) },
    cell("Commits", (r) => r.attempts), cell("Met", (r) => r.met), cell("Hinted", (r) => r.hinted),
    cell("Honest", (r) => r.honest),
  ], empty: { icon: "contended", title: "No shard is contended",
    text: "Of few commits of S-Bus clients the shard was at another version than they expected." } });
  const asking = poll(2000, (signal) => api.classes(signal), (v) => {
    problem.set(null);
    if (!list.busy()) list.set(v.most_contended);
    text(note, `Shards of S-Bus clients: ${int(v.dedicated)} dedicated, ${int(v.contended_commutative)} contended ` +
      `whose commits only add, ${int(v.contended_noncommutative)} contended whose commits do not`);
  }, problem.set);
  return { root: h("div", { class: "card" }, h("header", {}, note), problem.root, list.root), stop: asking.stop };
}

// contendedView lists what is fought over.
export function contendedView(ctx) {
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
  const classes = ctx.about?.classes ? classesCard() : null;
  if (classes) root.append(classes.root);
  return { root, title: "Fought over", stop: () => {
    asking.stop();
    classes?.stop();
  } };
}

// noteOf says what the list is of, and what is not in it.
export function noteOf(v) {
  const parts = [`${plural(v.refusals, "refusal")} ${within(v.seconds)}`];
  if (v.nameless > 0) parts.push(`${int(v.nameless)} of them ${v.nameless === 1 ? "names" : "name"} no scope`);
  if (v.more > 0) parts.push(`${plural(v.more, "further scope")} not listed`);
  if (v.listed_ms < v.seconds * 1000) parts.push(`only the newest ${span(v.listed_ms)} are remembered one by one`);
  return parts.join("; ");
}
