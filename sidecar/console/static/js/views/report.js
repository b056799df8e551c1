import { h } from "../dom.js";
import { date, int, plural, span } from "../format.js";
import { graph } from "../graph.js";
import { icon } from "../icons.js";
import { chip } from "../states.js";
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

const codes = (list) => h("span", { class: "scope-list" }, (list ?? []).map((x) => h("code", {}, x)));

export function effectsTable(effects) {
  const widths = ["52px", "20%", "126px", "124px"].map((w) => h("col", { width: w }));
  return h("div", { class: "table-scroll" }, h("table", { class: "free" },
    h("caption", { class: "hidden-text" }, "Tool calls"),
    h("colgroup", {}, widths, h("col")),
    h("thead", {}, h("tr", {}, ["Call", "Tool", "State", "Class", "What it moves"].map((t) => h("th",
      { scope: "col" }, t)))),
    h("tbody", {}, effects.map((e) => [
      h("tr", { class: e.args || e.answer ? "opened" : null }, h("td", {}, String(e.index)),
        h("td", { class: "strong" }, e.tool),
        h("td", {}, chip(e.state)), h("td", {}, e.class.replaceAll("_", " ")),
        h("td", {}, codes(e.scopes), e.key ? h("div", { class: "sub" }, "key ", h("code", {}, e.key)) : null,
          e.detail ? h("div", { class: "sub" }, e.detail) : null)),
      e.args || e.answer ? h("tr", {}, h("td"), h("td", { colspan: 4 }, content("Arguments", e.args),
        content("Answer", e.answer))) : null,
    ]))));
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

function residueOf(list) {
  if (list.length === 0) return null;
  return section("Residue", "what could not be made clean", h("ul", { class: "stack" },
    list.map((r) => h("li", {}, chip(r.result), " ", chip(r.state === "open" ? "open" : r.state),
    h("span", { class: "strong" }, ` ${r.tool}`), ` (call ${r.index}) `,
      h("span", { class: "muted" }, r.detail ?? ""), r.note ? h("span", { class: "muted" }, ` Note: ${r.note}`)
      : null))));
}

function facts(report) {
  const d = report.decision ?? {};
  const live = report.live;
  return h("dl", { class: "facts" },
    fact("Agent", report.agent || "–"), fact("Mode", d.mode || live?.mode),
    fact("Decided at seq", d.seq ? int(d.seq) : null),
    fact("Began", report.began_ms ? date(report.began_ms) : null),
    fact("Open for", report.began_ms && (report.sealed_ms || report.decided_ms)
      ? span((report.sealed_ms || report.decided_ms) - report.began_ms) : null),
    fact("Seal to decision", report.sealed_ms && report.decided_ms ? span(report.decided_ms - report.sealed_ms)
      : null),
    fact("Can a retry succeed", d.state === "aborted" ? (d.retryable ? "yes" : "no") : null),
    fact("Group", live?.group), fact("Retraction of", d.retraction),
    live?.granted?.length ? fact("Holds", codes(live.granted.map((x) => x.scope))) : null,
    live?.claimed?.length ? fact("Claims", codes(live.claimed.map((x) => x.scope))) : null);
}

// reportBody draws a transaction: from the server, or from a file. links: other transactions can be opened.
export function reportBody(report, { now, links = true }) {
  const rests = report.closure;
  const wide = rests?.rows.length > 1;
  return h("div", { class: "stack" },
    h("section", { class: "card verdict", "aria-label": "How it stands" }, h("div", { class: "body" },
      h("p", { class: "sentence" }, chip(report.state), h("span", {}, report.paragraph, heldNote(report))),
        report.undo ? h("p", { class: "muted" }, report.undo.sentence) : null,
        facts(report))),
    report.missing.map((m) => notice(`Not shown: ${m}`, "calm")),
    wide ? causes(rests, links) : null,
    h("div", { class: `pair${wide && report.effects.length + report.residue.length === 0 ? " one" : ""}` },
      section("Timeline", plural(report.acts.length + report.decisions.length, "step"),
        report.acts.length + report.decisions.length > 0
        ? timeline(report, now) : h("p", { class: "muted" }, "No step of it is known any more.")),
      h("div", { class: "stack" }, wide ? null : causes(rests, links),
        report.effects.length > 0 ? section("Tool calls", plural(report.effects.length, "call"),
          effectsTable(report.effects)) : null,
        residueOf(report.residue))));
}

function causes(rests, links) {
  return section("What it rests on", rests ? plural(rests.rows.length - 1, "transaction") : null, rests
    ? graph(rests, { links })
    : h("p", { class: "muted" },
      "The closure table knows nothing of it yet; it may lag behind, or nothing was read."));
}

export const back = (href, name) => h("a", { class: "button quiet", href }, icon("back"), name);
