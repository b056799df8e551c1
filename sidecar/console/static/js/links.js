// Names of things as ways to them. Where there is no server behind a page, a name is only a name.
import { txHref } from "./api.js";
import { h } from "./dom.js";
import { int } from "./format.js";

const seg = encodeURIComponent;
export const hrefs = {
  tx: txHref,
  agent: (name) => `#/decisions?agent=${seg(name)}`,
  scope: (name) => `#/scopes?prefix=${seg(name)}`,
  seq: (seq) => `#/decisions?seq=${seg(seq)}`,
  reason: (code) => `#/decisions?reason=${seg(code)}`,
};

const named = (kind, className) => (name, links = true) => h(links ? "a" : "span",
  { href: links ? hrefs[kind](name) : null, class: className, title: className ? name : null }, name);

export const txLink = named("tx", "mono");
export const scopeLink = named("scope", "mono scope");
export const agentLink = named("agent", null);

export const seqLink = (seq, links = true) => (links ? h("a", { href: hrefs.seq(seq) }, `seq ${int(seq)}`)
  : `seq ${int(seq)}`);

export const list = (items, draw) => items.map((x, i) => [i > 0 ? ", " : null, draw(x)]);

// linked makes links of the names in a sentence: known is { tx, scope, agent }, lists of names. A name is one only
// where no longer one begins or ends.
export function linked(sentence, known, links = true) {
  if (!links) return sentence;
  const kinds = new Map();
  for (const kind of ["agent", "scope", "tx"]) for (const name of known[kind] ?? []) if (name) kinds.set(name, kind);
  const names = [...kinds.keys()].sort((a, b) => b.length - a.length).map((x) => x.replace(/[^\w]/g, "\\$&"));
  const word = "[\\w/%@*~+=\\-]";
  const any = [...names, "seq \\d+"].join("|");
  const found = new RegExp(`(?<!${word}|[\\w/][.:])(?:${any})(?!${word}|[.:][\\w/])`, "g");
  const out = [];
  let at = 0;
  for (const match of sentence.matchAll(found)) {
    out.push(sentence.slice(at, match.index));
    at = match.index + match[0].length;
    const kind = kinds.get(match[0]);
    if (kind === "tx") out.push(txLink(match[0]));
    else if (kind === "scope") out.push(scopeLink(match[0]));
    else if (kind === "agent") out.push(agentLink(match[0]));
    else out.push(seqLink(Number(match[0].slice(4))));
  }
  out.push(sentence.slice(at));
  return out;
}

// namesOf are the names that a report knows: what its sentences can be about.
export function namesOf(report) {
  const d = report.decision ?? {};
  const rows = report.closure?.rows ?? [];
  const waits = [...(d.blocked_by ?? []), ...(report.live?.waits ?? [])];
  const events = report.decisions.map((x) => x.event.data);
  return {
    tx: [d.moved_by, d.overtaken?.writer, d.retraction, ...(d.residue ?? []), ...waits.map((w) => w.tx),
      ...rows.map((r) => r.tx), ...events.flatMap((x) => [x.moved?.tx, ...(x.blocked_by ?? []).map((b) => b.tx)])]
      .filter((tx) => tx !== report.tx), // its own page is this one
    scope: [d.scope, d.overtaken?.scope, ...(d.re_read ?? []), ...waits.map((w) => w.scope),
      ...rows.flatMap((r) => [...(r.writes ?? []), ...(r.edges ?? []).map((e) => e.scope)]),
      ...events.map((x) => x.scope), ...report.acts.map((a) => a.scope)],
    agent: [report.agent],
  };
}
