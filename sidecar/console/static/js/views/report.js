import { h } from "../dom.js";
import { date, plural, span } from "../format.js";
import { graph } from "../graph.js";
import { icon } from "../icons.js";
import { agentLink, linked, list as listOf, namesOf, scopeLink, seqLink, txLink } from "../links.js";
import { chip } from "../states.js";
import { freeTable } from "../table.js";
import { timeline } from "../timeline.js";
import { notice } from "./page.js";

const section = (title, note, ...body) => h("section", { class: "card", "aria-label": title },
  h("header", {}, h("h2", {}, title), note ? h("p", {}, note) : null), h("div", { class: "body" }, body));

function heldNote(report) {
  const held = report.effects.filter((e) => e.state === "held").length;
  return held > 0 && report.live ? h("span", { class: "held-note" },
    ` ${plural(held, "call")} of it ${held === 1 ? "waits" : "wait"} at the gate for its commit.`) : null;
}

const fact = (name, value) => (value === undefined || value === null || value === "" ? null
  : h("div", {}, h("dt", {}, name), h("dd", {}, value)));

// words are the buttons at a call that waits for somebody's yes.
function words(e, say) {
  if (e.state !== "waits_for_approval" || !say) return null;
  const button = (name, kind, yes) => h("button", { class: `button small ${kind}`, type: "button",
    "aria-label": `${name} ${e.tool}, call ${e.index}`, onclick: () => say(e, yes) }, name);
  return h("div", { class: "row" }, button("Approve…", "primary", true), button("Deny…", "", false));
}

function effectsTable(effects, links, say) {
  return freeTable({ label: "Tool calls", least: 600,
    columns: [{ name: "Call", width: "52px" }, { name: "Tool", width: "20%" }, { name: "State", width: "126px" },
      { name: "Class", width: "124px" }, { name: "What it moves", wide: true }],
    rows: effects.map((e) => [String(e.index), h("span", { class: "strong" }, e.tool), chip(e.state),
      e.class.replaceAll("_", " "), [listOf(e.scopes ?? [], (x) => scopeLink(x, links)),
        e.key ? h("div", { class: "sub" }, "key ", h("code", {}, e.key)) : null,
        e.detail ? h("div", { class: "sub" }, e.detail) : null, content("Arguments", e.args),
        content("Answer", e.answer), words(e, say)]]) });
}

const content = (name, value) => (value ? h("div", {}, h("div", { class: "sub" }, name),
  h("pre", { tabindex: 0 }, pretty(value))) : null);

function pretty(value) {
  try {
    return JSON.stringify(JSON.parse(value), null, 2);
  } catch {
    return value; // it was cut, or is no JSON
  }
}

function residueOf(list, links) {
  if (list.length === 0) return null;
  return section("Residue", "what could not be made clean", h("ul", { class: "stack" },
    list.map((r) => h("li", {}, chip(r.call === "not_sent" ? r.call : r.result), " ", chip(r.state === "open" ? "open" : r.state),
    h("span", { class: "strong" }, ` ${r.tool}`), ` (call ${r.index}) `,
      listOf(r.scopes ?? [], (x) => scopeLink(x, links)), " ", h("span", { class: "muted" },
        r.detail ?? "", r.note ? ` Note: ${r.note}` : null)))));
}

function facts(report, links) {
  const d = report.decision ?? {};
  const live = report.live;
  return h("dl", { class: "facts" },
    fact("Agent", report.agent ? agentLink(report.agent, links) : "–"), fact("Mode", d.mode || live?.mode),
    fact("Decided at", d.seq ? seqLink(d.seq, links) : null),
    fact("Began", report.began_ms ? date(report.began_ms) : null),
    fact("Open for", report.began_ms && (report.sealed_ms || report.decided_ms)
      ? span((report.sealed_ms || report.decided_ms) - report.began_ms) : null),
    fact("Seal to decision", report.sealed_ms && report.decided_ms ? span(report.decided_ms - report.sealed_ms)
      : null),
    fact("Can a retry succeed", d.state === "aborted" ? (d.retryable ? "yes" : "no") : null),
    fact("Group", live?.group), fact("Retraction of", d.retraction ? txLink(d.retraction, links) : null),
    live?.granted?.length ? fact("Holds", listOf(live.granted, (x) => scopeLink(x.scope, links))) : null,
    live?.claimed?.length ? fact("Claims", listOf(live.claimed, (x) => scopeLink(x.scope, links))) : null);
}

// overtakerOf is who moved what the transaction relied on, as far as its decision says.
function overtakerOf(report) {
  const d = report.decision ?? {};
  if (d.moved_by || d.moved_seq) return { tx: d.moved_by, seq: d.moved_seq, scope: d.scope, code: d.code || d.would,
    would: !d.code };
  const o = d.overtaken;
  return o ? { tx: o.writer, seq: o.seq, scope: o.scope, code: d.code || d.would || "stale_read", would: !d.code }
    : null;
}

// reportBody draws a transaction: from the server, or from a file. links: other transactions can be opened.
// say: what is done with somebody's yes or no to a call; none: nobody can be asked here.
export function reportBody(report, { now, links = true, say = null }) {
  const steps = report.acts.length + report.decisions.length;
  const beside = report.effects.length + report.residue.length > 0;
  return h("div", { class: "stack" },
    h("section", { class: "card verdict", "aria-label": "How it stands" }, h("div", { class: "body" },
      h("p", { class: "sentence" }, chip(report.state), h("span", {},
        linked(report.paragraph, namesOf(report), links), heldNote(report))),
      report.undo ? h("p", { class: "muted" }, report.undo.sentence) : null, facts(report, links))),
    report.missing.map((m) => notice(`Not shown: ${m}`, "calm")),
    h("div", { class: `pair${beside ? "" : " one"}` },
      section("Timeline", plural(steps, "step"), steps > 0 ? timeline(report, now, links)
        : h("p", { class: "muted" }, "No step of it is known any more.")),
      beside ? h("div", { class: "stack" },
        report.effects.length > 0 ? section("Tool calls", plural(report.effects.length, "call"),
          effectsTable(report.effects, links, say)) : null,
        residueOf(report.residue, links)) : null),
    causes(report, links));
}

function causes(report, links) {
  const over = overtakerOf(report);
  const rests = report.closure ?? (over ? { tx: report.tx, limit: 0, rows: [{ tx: report.tx, agent: report.agent,
    status: report.state, seq: report.decision?.seq, code: report.decision?.code }] } : null);
  return section(over ? "What it rests on, and who overtook it" : "What it rests on",
    rests ? plural(rests.rows.length - 1, "transaction") : null, rests ? graph(rests, { links, over })
    : h("p", { class: "muted" },
      "The closure table knows nothing of it yet; it may lag behind, or nothing was read."));
}

export const back = (href, name) => h("a", { class: "button quiet", href }, icon("back"), name);
