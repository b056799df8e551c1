import { h, s } from "./dom.js";
import { bytes, clock, span } from "./format.js";
import { icon } from "./icons.js";
import { list as listOf, scopeLink, seqLink, txLink } from "./links.js";
import { look, reason, tone, why } from "./states.js";

const act = (links) => (x) => ({ at: x.at_ms, seq: x.view, picture: x.kind, ...wordsOf(x, links) });

function wordsOf(x, links) {
  const scope = x.scope ? scopeLink(x.scope, links) : null;
  switch (x.kind) {
    case "read":
      return { title: ["read ", scope], tone: "calm", picture: "read",
        note: [x.version ? [`version ${x.version}`, x.writer ? [" by ", txLink(x.writer, links)] : null]
          : "nothing there", `, as of seq ${x.view}`] };
    case "write":
      return { title: ["wants to write ", scope], tone: "calm", picture: "write", note: bytes(x.size ?? 0) };
    case "touch":
      return { title: ["acts by itself on ", scope ?? "scopes"], tone: "calm", picture: "granted" };
    case "seal":
      return { title: "sealed by its agent", tone: "seal", picture: "sealed", note: "nothing is added from here on" };
    case "effect":
      return { title: [h("span", { class: "strong" }, x.tool), " asked for"], tone: "wait", picture: "call",
        note: [`call ${x.effect}`, scope ? [" moves ", scope] : null] };
    case "answer":
      return { title: `call ${x.effect}: ${(x.step ?? "").replaceAll("_", " ")}`, picture: "call",
        tone: x.step === "answered" || x.step === "undone" ? "good" : "wait", note: x.detail };
    default:
      return { title: x.kind, tone: "calm", note: x.detail };
  }
}

const titles = {
  begun: "took its place in the order",
  waiting: "waits",
  granted: "was granted what it asked for",
  refused: "a request was refused",
  committed: "committed",
  aborted: "aborted",
  settled: "settled: nothing of it is pending any more",
  adopted: "its settlement was taken over",
  retracting: "is being retracted",
  turn: "is to be undone now",
  selected: "its branch was chosen",
};

// causes say what happened at the seq that a refusal names, as words.go does.
const causes = {
  conflict: (seq, by) => ["granted to ", by, " at ", seq],
  wounded: (seq, by) => ["granted to it at ", seq, ", needed by ", by],
  own_transaction: (seq, by) => [by, " has it since ", seq],
  lost_branch: (seq, by) => [by, " was chosen at ", seq],
  cascade: (seq, by) => ["by ", by, ", decided at ", seq],
  phantom_tool: (seq, by) => ["changed at ", seq, " by the sidecar of ", by],
};

function cause(x, links) {
  const { seq, tx, agent } = x.moved ?? {};
  if (x.code === "too_old" && x.floor) return ["what is older than ", seqLink(x.floor, links), " is forgotten"];
  if (!seq) return null;
  const at = seqLink(seq, links);
  const by = tx ? txLink(tx, links) : agent;
  const said = by && causes[x.code] ? causes[x.code](at, by) : ["moved at ", at, by ? [" by ", by] : null];
  return x.by === "sidecar" ? [said, ", as its sidecar saw it"] : said;
}

const told = (links) => (d) => {
  const x = d.event.data;
  const note = [];
  if (x.code) note.push(`${x.code}${reason(x.code) ? `: ${reason(x.code)}` : ""}`);
  if (x.scope) note.push(scopeLink(x.scope, links));
  if (x.tool) note.push(h("code", {}, x.tool));
  const moved = cause(x, links);
  if (moved) note.push(moved);
  for (const b of (x.blocked_by ?? []).slice(0, 3)) {
    note.push([b.tx && b.tx !== x.tx ? txLink(b.tx, links) : "it", ` ${why(b.why)}`,
      b.scope ? [" ", scopeLink(b.scope, links)] : null]);
  }
  const writes = (x.writes ?? []).map((w) => w.scope);
  if (writes.length > 0 && x.kind !== "granted") {
    note.push(["wrote ", listOf(writes.slice(0, 4), (w) => scopeLink(w, links)), writes.length > 4
      ? ` and ${writes.length - 4} more` : ""]);
  }
  if (x.detail) note.push(x.detail);
  return { at: d.at_ms ?? 0, seq: x.seq, decided: true, kind: x.kind, picture: look(x.kind)[2], tone: tone(x.kind),
    title: h("span", { class: "strong" }, titles[x.kind] ?? look(x.kind)[0]), tick: x.tick,
    note: note.map((n, i) => [i > 0 ? " · " : null, n]) };
};

// entries puts what an agent did and what was decided about it into one order: by time where a clock saw it, else by
// the seq that a read was made at.
export function entries(report, links) {
  const acts = report.acts.map(act(links)).sort((a, b) => a.at - b.at);
  const out = [];
  let i = 0;
  for (const d of report.decisions.map(told(links))) {
    while (i < acts.length && before(acts[i], d)) out.push(acts[i++]);
    out.push(d);
  }
  return out.concat(acts.slice(i));
}

function before(a, d) {
  if (d.at && a.at) return a.at <= d.at;
  if (a.seq) return a.seq < d.seq;
  return ["committed", "aborted", "settled", "turn", "retracting"].includes(d.kind);
}

// phases are the stretches of a transaction's life: [{ name, tone, from, to }], in unix ms.
export function phases(report, now) {
  const out = [];
  const end = report.live ? now : Math.max(report.decided_ms ?? 0, report.sealed_ms ?? 0,
    ...report.acts.map((a) => a.at_ms), ...report.decisions.map((d) => d.at_ms ?? 0));
  const marks = [["open", "calm", report.began_ms], ["sealed", "seal", report.sealed_ms],
    [report.state === "aborted" ? "undoing" : "settling", report.state === "aborted" ? "bad" : "good",
      report.decided_ms]]
    .filter(([, , at]) => at > 0);
  for (const d of report.decisions) {
    const kind = d.event.data.kind;
    if (d.at_ms && kind === "waiting" && !(report.sealed_ms && d.at_ms >= report.sealed_ms)) marks.push(["waiting",
      "wait", d.at_ms]);
    if (d.at_ms && kind === "granted") marks.push(["acting", "calm", d.at_ms]);
  }
  marks.sort((a, b) => a[2] - b[2]);
  marks.forEach(([name, colour, from], i) => {
    const to = i + 1 < marks.length ? marks[i + 1][2] : end;
    if (to > from) out.push({ name, tone: colour, from, to });
  });
  return out;
}

function phaseBar(list) {
  if (list.length === 0) return null;
  const start = list[0].from;
  const total = Math.max(1, list[list.length - 1].to - start);
  const least = 0.012; // of the width: a short stretch is seen, too
  const widths = list.map((p) => Math.max(least, (p.to - p.from) / total));
  const all = widths.reduce((a, b) => a + b, 0);
  let x = 0;
  const bars = list.map((p, i) => {
    const w = (1000 * widths[i]) / all;
    const rect = s("rect", { x, y: 0, width: Math.max(1, w - 2), height: 12, class: `fill-${p.tone}` },
      s("title", {}, `${p.name} ${span(p.to - p.from)}`));
    x += w;
    return rect;
  });
  const words = list.map((p) => `${p.name} ${span(p.to - p.from)}`).join(", ");
  return h("figure", { class: "phases" }, s("svg", { viewBox: "0 0 1000 12", preserveAspectRatio: "none", role: "img",
    "aria-label": words }, bars),
    h("figcaption", {}, list.map((p) => h("span", { class: "key" }, s("svg",
      { viewBox: "0 0 10 10", "aria-hidden": "true" },
      s("rect", { width: 10, height: 10, rx: 2, class: `fill-${p.tone}` })), `${p.name} `,
        h("span", { class: "num muted" }, span(p.to - p.from))))));
}

// timeline draws a transaction's life: a bar of its stretches, and every step.
export function timeline(report, now, links) {
  const list = entries(report, links);
  const start = report.began_ms || list.find((e) => e.at)?.at || 0;
  return h("div", {}, phaseBar(phases(report, now)), h("ol", { class: "timeline" },
    list.map((e) => h("li", { class: e.decided ? "decided" : null },
    h("span", { class: `mark ink-${e.tone}` }, h("span", { class: "ring" }, icon(e.picture))),
    h("span", { class: "when num", title: e.at ? clock(e.at, true) : null }, e.at ? `+${span(e.at - start)}`
      : e.tick !== undefined ? `tick ${e.tick}` : ""),
    h("div", {}, h("div", {}, e.title, e.decided ? h("span", { class: "faint num whole" }, ` seq ${e.seq}`)
      : null), e.note
      ? h("div", { class: "sub" }, e.note) : null)))));
}
