import * as api from "../api.js";
import { h, put, text } from "../dom.js";
import { int, plural } from "../format.js";
import { icon } from "../icons.js";
import { list as listOf, scopeLink, txLink } from "../links.js";
import { poll } from "../store.js";
import { table } from "../table.js";
import { page, trouble } from "./page.js";

// scopesView lists scopes with their versions and who can still change them.
export function scopesView(ctx, { query }) {
  const input = h("input", { type: "text", value: query.get("prefix") ?? "", placeholder: "shard:/orders",
    spellcheck: "false", maxlength: 200 });
  const { root } = page("Scopes",
    "The frontier of a scope is the oldest transaction that can still change it. Without one, what stands there " +
      "is settled.");
  const problem = trouble();
  const note = h("p", { class: "sub num", role: "status" });
  let head = 0;
  const list = table({
    label: "Scopes", key: (r) => r.scope,
    columns: [
      { name: "Scope", width: "30%", wide: true, sign: (r) => r.scope,
        draw: (c, r) => put(c, scopeLink(r.scope)) },
      { name: "Version", width: "110px", right: true, sign: (r) => r.version,
        draw: (c, r) => text(c, r.version ? int(r.version) : "–") },
      { name: "Last writer", width: "22%", wide: true, sign: (r) => `${r.writer}${r.residue}`,
        draw: (c, r) => put(c, r.writer ? [txLink(r.writer), r.residue ? h("span", { class: "muted" }, " not clean")
        : null] : "–") },
      { name: "Frontier", width: "130px", sign: (r) => r.frontier, draw: (c, r) => put(c, r.frontier
        ? h("span", { class: "chip tone-wait" }, icon("waiting"), `epoch ${int(r.frontier)}`)
        : h("span", { class: "chip tone-good" }, icon("committed"), "settled")) },
      { name: "Lag", width: "84px", right: true, sign: (r) => (r.open?.length
        ? head - Math.min(...r.open.map((o) => o.since)) : 0), draw: (c, r) => text(c, r.open?.length
        ? int(head - Math.min(...r.open.map((o) => o.since))) : "–") },
      { name: "Can change it", wide: true, sign: (r) => (r.open ?? []).map((o) => o.tx).join(),
        draw: (c, r) => put(c, listOf((r.open ?? []).slice(0, 2), (o) => txLink(o.tx)),
        (r.open?.length ?? 0) > 2 ? ` and ${r.open.length - 2} more` : null) },
    ],
    empty: { icon: "scopes", title: "No scope is known under this name",
      text: "Scopes appear with the first decision that names them. Leave the field empty to see all, or begin " +
        "with a type:", code: "shard:/" },
  });
  root.append(problem.root, h("div", { class: "card" }, h("form", { class: "filters", onsubmit: (e) => {
    e.preventDefault();
    location.hash = `#/scopes?prefix=${encodeURIComponent(input.value.trim())}`;
  } }, h("label", { class: "field grow" }, h("span", {}, "Scopes that begin with"), input),
    h("button", { class: "button", type: "submit" }, "Show"), note), list.root));
  const asking = poll(2000, (signal) => api.scopes(query.get("prefix") ?? "", signal), (answer) => {
    problem.set(null);
    head = answer.seq;
    list.set(answer.rows);
    text(note, `${answer.truncated ? "The first " : ""}${plural(answer.rows.length, "scope")}`);
  }, problem.set);
  return { root, title: "Scopes", stop: asking.stop };
}
