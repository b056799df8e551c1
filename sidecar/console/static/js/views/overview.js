import * as api from "../api.js";
import { h, put, text } from "../dom.js";
import { age, int, percent, plural, rate, span } from "../format.js";
import { icon } from "../icons.js";
import { txLink } from "../links.js";
import { nothingHere, table } from "../table.js";
import { plot, spark } from "../plot.js";
import { poll, store } from "../store.js";
import { listed } from "../states.js";
import { contendedTable, noteOf, within } from "./contended.js";
import { columns } from "./decisions.js";
import { ageOf } from "./live.js";
import { choices, page } from "./page.js";

const tones = ["r1", "r2", "r3", "r4", "r5"];
const LONG_MS = 10_000;

const sum = (map) => Object.values(map ?? {}).reduce((a, b) => a + b, 0);

// mergedReasons are the most frequent reasons; the rest is one of its own.
export function mergedReasons(seconds) {
  const all = new Map();
  for (const d of seconds) for (const [code, n] of Object.entries(d.aborts ?? {})) all.set(code,
    (all.get(code) ?? 0) + n);
  const sorted = [...all].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([code]) => code);
  const top = sorted.slice(0, tones.length - (sorted.length > tones.length ? 1 : 0)).sort();
  const series = top.map((code, i) => ({ name: code, tone: tones[i], kind: "bars",
    value: (d) => d.aborts?.[code] ?? 0 }));
  if (sorted.length > tones.length) {
    const rest = sorted.filter((code) => !top.includes(code));
    series.push({ name: "others", tone: tones[tones.length - 1], kind: "bars",
      value: (d) => rest.reduce((n, code) => n + (d.aborts?.[code] ?? 0), 0) });
  }
  return { series, all };
}

function tile(name, tone) {
  const value = h("p", { class: "value num" }, "–");
  const note = h("p", { class: "sub num" }, " ");
  const line = tone ? spark(tone) : null; // of the plots' time, as the figure
  return { root: h("div", { class: "card tile" }, h("h2", {}, name), value, note, line?.root), value, note, line };
}

// overviewView is what one looks at first: is anything wrong, how much is decided, how fast, and what is refused.
export function overviewView(ctx) {
  const choice = choices("Show the last", [60, 120, 300].map((n) => [n, span(n * 1000)]), 120, () => {
    figures();
    drawPlots();
    asking.now();
  });
  const { root } = page("Overview", null, choice.root);
  const commits = tile("Commits a second", "good");
  const refused = tile("Aborted", "bad");
  const latency = tile("Seal to decision, median", "accent");
  const waiting = tile("Under way now");
  const tiles = h("div", { class: "tiles" }, [commits, refused, latency, waiting].map((t) => t.root));
  const attention = h("div", { class: "attention" });
  const flow = plot({ title: "Commits and aborts", note: "transactions a second", series: [
    { name: "committed", tone: "good", kind: "bars", value: (d) => d.commits },
    { name: "aborted", tone: "bad", kind: "bars", value: (d) => sum(d.aborts) },
  ], summary: (all) => {
    const commits = plural(all.reduce((n, d) => n + d.commits, 0), "commit");
    const aborts = plural(all.reduce((n, d) => n + sum(d.aborts), 0), "abort");
    return `${commits} and ${aborts} in ${plural(all.length, "second")}.`;
  } });
  const why = plot({ title: "Aborts by reason", note: "a second", series: [], summary: (all) => {
    const { all: counts } = mergedReasons(all);
    return counts.size === 0 ? "None." : [...counts].map(([code, n]) => `${code} ${n}`).join(", ");
  } });
  const speed = plot({ title: "Seal to decision", ms: true, floor: 10,
    note: "by the clocks of sidecar and console", series: [
    { name: "median", tone: "accent", kind: "line", value: (d) => d.p50_ms, skip: (d) => d.samples === 0 },
    { name: "99 of 100", tone: "calm", kind: "dashed", value: (d) => d.p99_ms, skip: (d) => d.samples === 0 },
  ], summary: (all) => {
    const one = [...all].reverse().find((d) => d.samples > 0);
    return one ? `Lately ${span(one.p50_ms)} in the median, ${span(one.p99_ms)} for 99 of 100.`
      : "Nothing was sealed.";
  } });
  const latest = table({ label: "Latest decisions", key: (r) => r.seq, columns: columns(), tall: false,
    height: `${40 * 8 + 36}px` });
  const quiet = nothingHere({ icon: "overview", title: "Nothing was decided yet",
    text: "Agents write through their sidecars; every decision appears here as it is made. Try one from another " +
      "terminal:",
    code: 'curl -s -H "Authorization: Bearer $HENCE_TOKEN" -X PUT --data hello \\\n' +
      '  "$HENCE_URL/v1/workspaces/' + `${ctx.about.workspace}/shards/first"` });
  const latestCard = h("div", { class: "card" }, h("header", {}, h("h2", {}, "Latest decisions"),
    h("span", { class: "tools" }, h("a", { href: "#/decisions" }, "All decisions"))), latest.root, quiet);
  const fought = contendedTable({ tall: false, least: 900, label: "Scopes by refusals, the first five" });
  const foughtNote = h("p", { class: "num" });
  const foughtCard = h("section", { class: "card", "aria-label": "What is fought over" }, h("header", {},
    h("h2", {}, "What is fought over"), foughtNote, h("span", { class: "tools" },
      h("a", { href: "#/contended" }, "All of them"))), fought.root);
  root.append(attention, tiles, h("div", { class: "plots" }, flow.root, why.root, speed.root),
    h("div", { class: "stack" }, foughtCard, latestCard));
  let drawnSecond = -1;
  let shownAttention = "";

  function figures() {
    const shown = store.seconds.slice(-choice.value());
    const done = shown.reduce((a, d) => a + d.commits, 0);
    const lost = shown.reduce((a, d) => a + sum(d.aborts), 0);
    const time = within(shown.length);
    text(commits.value, rate(done / Math.max(1, shown.length)));
    text(commits.note, `${int(done)} ${time}`);
    commits.line.set(shown.map((d) => d.commits));
    text(refused.value, percent(lost, done + lost));
    const codes = [...mergedReasons(shown).all].sort((a, b) => b[1] - a[1]);
    text(refused.note, `${int(lost)} ${time}${codes.length > 0 ? `, mostly ${codes[0][0]}` : ""}`);
    refused.line.set(shown.map((d) => sum(d.aborts)));
    latency.line.set(shown.filter((d) => d.samples > 0).map((d) => d.p50_ms));
  }

  // take shows what only the server can count over the whole time.
  function take(v) {
    text(latency.value, v.took.samples > 0 ? span(v.took.p50_ms) : "–");
    text(latency.note, v.took.samples > 0 ? `${span(v.took.p99_ms)} for 99 of 100, ${within(v.seconds)}`
      : `nothing was sealed ${within(v.seconds)}`);
    foughtCard.hidden = v.contended.length === 0;
    text(foughtNote, noteOf(v));
    if (!fought.busy()) fought.set(v.contended.slice(0, 5));
  }

  function tellLive(live) {
    const waits = live.transactions.filter((t) => t.waits?.length > 0);
    text(waiting.value, int(live.transactions.length));
    text(waiting.note, `${plural(waits.length, "waits", "wait")} for another`);
    attend(live);
  }

  // attend lists what needs an operator.
  function attend(live) {
    const items = [];
    for (const t of live.troubles) items.push(["trouble", t]);
    const orphans = live.transactions.filter((t) => t.state === "orphan");
    if (orphans.length > 0) items.push(["wait", [plural(orphans.length, "transaction is", "transactions are"),
      " decided and no sidecar settles ", orphans.length === 1 ? "it: " : "them: ", txLink(orphans[0].tx)]]);
    const long = live.transactions.filter((t) => t.waits?.length > 0 && ageOf(t, store.now()) > LONG_MS);
    if (long.length > 0) items.push(["wait", [txLink(long[0].tx),
      ` has been under way for ${age(ageOf(long[0], store.now()))} and waits`, long.length > 1
      ? `; so do ${long.length - 1} more` : ""]]);
    const open = (ctx.residue?.items ?? []).filter((r) => r.state === "open").length;
    if (open > 0) items.push(["bad", [h("a", { href: "#/residue" }, plural(open, "effect")),
      " could not be made clean"]]);
    const gone = live.agents.filter((a) => !a.live && a.ended);
    if (gone.length > 0) items.push(["calm", [h("a", { href: "#/agents" },
      plural(gone.length, "agent has", "agents have")), " no sidecar any more"]]);
    const sign = items.map(([k, x]) => k + (Array.isArray(x) ? x.map((y) => y?.textContent ?? y).join("")
      : x)).join("|");
    if (sign === shownAttention) return;
    shownAttention = sign;
    put(attention, items.map(([kind, what]) => h("p",
      { class: `notice ${kind === "bad" ? "bad" : kind === "calm" ? "calm" : ""}` },
      icon(kind === "bad" ? "residue" : "note"), h("span", {}, what))));
  }

  function drawPlots() {
    const seconds = choice.value();
    const shown = store.seconds.slice(-seconds);
    flow.set(shown, null, seconds);
    why.set(shown, mergedReasons(shown).series, seconds);
    speed.set(shown, null, seconds);
  }

  function update() {
    const last = store.seconds[store.seconds.length - 1]?.at ?? 0;
    if (last !== drawnSecond) {
      drawnSecond = last;
      figures();
      drawPlots();
      asking.now(); // what the server counts is of the same seconds
    }
    quiet.hidden = store.rows.length > 0 || store.state !== "open";
    latest.root.hidden = store.rows.length === 0;
    if (store.rows.length > 0 && !latest.busy()) latest.set(store.rows.filter(listed).slice(-40).reverse());
  }
  foughtCard.hidden = true;
  const asking = poll(5000, (signal) => api.window_(choice.value(), signal), take);
  if (ctx.live) tellLive(ctx.live);
  update();
  return { root, title: "Overview", update, live: tellLive, residue: () => ctx.live && attend(ctx.live),
    stop: () => [flow, why, speed, asking].forEach((p) => p.stop()) };
}
