import { h, put, text } from "../dom.js";
import { age, int, ms, plural, rate } from "../format.js";
import { icon } from "../icons.js";
import { nothingHere, table } from "../table.js";
import { plot, spark } from "../plot.js";
import { store } from "../store.js";
import { reason } from "../states.js";
import { columns } from "./decisions.js";
import { ageOf, txLink } from "./live.js";
import { page } from "./page.js";

const tones = ["r1", "r2", "r3", "r4", "r5"];
const RECENT = 10; // seconds behind the figures of the tiles
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
  const line = tone ? spark(tone) : null;
  return { root: h("div", { class: "card tile" }, h("h2", {}, name), value, note, line?.root), value, note, line };
}

// overviewView is what one looks at first: is anything wrong, how much is decided, how fast, and what is refused.
export function overviewView(ctx) {
  let minutes = 2;
  const choice = h("div", { class: "choices", role: "group", "aria-label": "Show the last" },
    [1, 2, 5].map((n) => h("button", {
    class: "button small", type: "button", "aria-pressed": String(n === minutes), onclick: (e) => {
      minutes = n;
      for (const b of choice.children) b.setAttribute("aria-pressed", String(b === e.currentTarget));
      drawPlots();
    } }, `${n} min`)));
  const { root } = page("Overview", null, choice);
  const commits = tile("Commits a second", "good");
  const refused = tile("Aborted", "bad");
  const latency = tile("Seal to decision, median", "accent");
  const waiting = tile("Under way");
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
  const speed = plot({ title: "Seal to decision", unit: "ms", note: "by the clocks of sidecar and console", series: [
    { name: "median", tone: "accent", kind: "line", value: (d) => d.p50_ms, skip: (d) => d.samples === 0 },
    { name: "99 of 100", tone: "calm", kind: "dashed", value: (d) => d.p99_ms, skip: (d) => d.samples === 0 },
  ], summary: (all) => {
    const one = [...all].reverse().find((d) => d.samples > 0);
    return one ? `Lately ${ms(one.p50_ms)} in the median, ${ms(one.p99_ms)} for 99 of 100.` : "Nothing was sealed.";
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
  root.append(attention, tiles, h("div", { class: "plots" }, flow.root, why.root, speed.root), latestCard);
  let drawnSecond = -1;
  let shownAttention = "";

  function figures() {
    const recent = store.seconds.slice(-RECENT);
    const n = Math.max(1, recent.length);
    const done = recent.reduce((a, d) => a + d.commits, 0);
    const lost = recent.reduce((a, d) => a + sum(d.aborts), 0);
    text(commits.value, rate(done / n));
    text(commits.note, `${rate(recent.reduce((a, d) => a + d.decisions, 0) / n)} decisions a second`);
    commits.line.set(store.seconds.slice(-60).map((d) => d.commits));
    text(refused.value, done + lost === 0 ? "–" : `${((100 * lost) / (done + lost)).toFixed(lost === 0 ? 0 : 1)} %`);
    const codes = [...mergedReasons(recent).all].sort((a, b) => b[1] - a[1]);
    text(refused.note, codes.length > 0 ? `mostly ${codes[0][0]}` : "none in the last 10 s");
    refused.line.set(store.seconds.slice(-60).map((d) => sum(d.aborts)));
    const timed = store.seconds.filter((d) => d.samples > 0);
    const last = timed[timed.length - 1];
    text(latency.value, last ? ms(last.p50_ms) : "–");
    text(latency.note, last ? `${ms(last.p99_ms)} for 99 of 100` : "nothing was sealed lately");
    latency.line.set(timed.slice(-60).map((d) => d.p50_ms));
  }

  function tellLive(live) {
    const waits = live.transactions.filter((t) => t.waits?.length > 0);
    text(waiting.value, int(live.transactions.length));
    text(waiting.note, `${plural(waits.length, "waits", "wait")} for another`);
    attend(live);
  }

  // attend lists what somebody should look at.
  function attend(live) {
    const items = [];
    for (const t of live.troubles) items.push(["trouble", t]);
    const orphans = live.transactions.filter((t) => t.state === "orphan");
    if (orphans.length > 0) items.push(["wait", [plural(orphans.length, "transaction is", "transactions are"),
      " decided and nobody settles ", orphans.length === 1 ? "it: " : "them: ", txLink(orphans[0].tx)]]);
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
    const shown = store.seconds.slice(-60 * minutes);
    flow.set(shown, null, 60 * minutes);
    why.set(shown, mergedReasons(shown).series, 60 * minutes);
    speed.set(shown, null, 60 * minutes);
  }

  function update() {
    const last = store.seconds[store.seconds.length - 1]?.at ?? 0;
    if (last !== drawnSecond) {
      drawnSecond = last;
      figures();
      drawPlots();
    }
    quiet.hidden = store.rows.length > 0 || store.state !== "open";
    latest.root.hidden = store.rows.length === 0;
    if (store.rows.length > 0 && !latest.busy()) latest.set(store.rows.slice(-40).reverse());
  }
  if (ctx.live) tellLive(ctx.live);
  update();
  return { root, title: "Overview", update, live: tellLive, residue: () => ctx.live && attend(ctx.live),
    stop: () => [flow, why, speed].forEach((p) => p.stop()), reason };
}
