import { h, put, s, uid } from "./dom.js";
import { clock, int, middle, plural, span } from "./format.js";
import { shape } from "./icons.js";
import { agentLink, hrefs, scopeLink, txLink } from "./links.js";
import { look, tone } from "./states.js";
import { freeTable } from "./table.js";

const ROW = 34; // of one transaction; several lie below each other where they overlap in time
const MOST_ROWS = 5; // of one lane
const BAR = 14;
const TOP = 26;
const NAMES = 150; // pixels left of the lanes, where there is space for them
const MOST_NAMED = 16; // arrows that carry their scope all the time; more cannot be read
const LEAST = 10;

const outcome = (b) => (b.state !== "settling" ? b.state : b.committed ? "committed" : "aborted");

// saysOf is a bar in words.
export function saysOf(b) {
  const [word] = look(outcome(b));
  const at = (scope) => (scope ? ` at ${scope}` : "");
  let says = `${b.tx} ${word}`;
  if (b.decided_ms) says += ` after ${span(b.decided_ms - b.began_ms)}`;
  if (b.code || b.would) says += `: ${b.code || `would have been ${b.would}`}${at(b.scope)}`;
  if (b.by || b.by_seq) says += `, moved by ${b.by || `seq ${b.by_seq}`}`;
  if (b.waits.length > 0) says += `; waits for ${b.waits.map((w) => w.tx + at(w.scope)).join(", ")}`;
  return `${says}; ${plural(b.reads, "read")}, ${plural(b.writes, "write")}, ${plural(b.calls, "call")}`;
}

// packed puts the bars of a lane into rows, so that none lies on another; left is how many found none.
function packed(bars, x, now) {
  const ends = [];
  let left = 0;
  const out = [];
  for (const b of bars) {
    const from = x(b.began_ms);
    const to = Math.max(from + LEAST, x(b.end_ms || now)) + 8;
    let row = ends.findIndex((end) => end <= from);
    if (row < 0) row = ends.length;
    if (row === MOST_ROWS) {
      left++;
      continue;
    }
    ends[row] = to;
    out.push({ b, row });
  }
  return { placed: out, rows: Math.max(1, ends.length), left };
}


// arrow leads from one place to another around what lies between.
function arrow(from, to, className, says, of) {
  const bend = Math.max(24, Math.abs(to.x - from.x) / 2);
  const d = `M${from.x} ${from.y}C${from.x + bend} ${from.y} ${to.x - bend} ${to.y} ${to.x} ${to.y}`;
  const wings = `M${to.x - 7} ${to.y - 4}L${to.x} ${to.y}L${to.x - 7} ${to.y + 4}`;
  return s("path", { d: d + wings, class: `ties ${className}`, "data-of": of.join(" ") },
    s("title", {}, says));
}

// lanes draws what all agents did, one lane each, time from left to right. at(bar) is told what is looked at.
export function lanes(view, width, at) {
  const names = width >= 720 ? NAMES : 0;
  const right = width - 14;
  const x = (ms) => names + Math.max(0, ((ms - view.from_ms) / (view.now_ms - view.from_ms)) * (right - names));
  const title = uid("lanes");
  const grid = s("g", { class: "axis", "aria-hidden": "true" });
  const ties = s("g", { "aria-hidden": "true" });
  const groups = [];
  const looked = (b) => {
    for (const tie of ties.children) tie.classList.toggle("near", tie.dataset.of.split(" ").includes(b.tx));
    at(b);
  };
  const places = new Map(); // of each drawn transaction
  const bars = []; // of each lane, by begin
  let left = 0;
  let y = TOP;
  const ordered = [...view.lanes].sort((a, b) => a.agent.localeCompare(b.agent, "en", { numeric: true }));
  for (const lane of ordered) {
    const { placed, rows, left: more } = packed(lane.bars, x, view.now_ms);
    left += more;
    const label = names === 0 ? 18 : 0;
    const middleY = y + label + (rows * ROW) / 2;
    const where = names === 0 ? { x: 0, y: y + 14, "text-anchor": "start" }
      : { x: names - 12, y: middleY + 4, "text-anchor": "end" };
    const name = s("text", { class: "lane-name", ...where }, s("title", {}, lane.agent),
      middle(lane.agent, names === 0 ? 40 : 19));
    const drawn = placed.map(({ b, row }) => {
      const until = x(b.decided_ms || b.end_ms || view.now_ms);
      const place = { x: Math.max(x(b.began_ms) + LEAST, until), y: y + label + row * ROW + ROW / 2, b };
      places.set(b.tx, place);
      return bar(b, place, x, view.now_ms, looked);
    });
    bars.push(drawn);
    groups.push(s("g", { role: "group", "aria-label": `${lane.agent}: ${plural(drawn.length, "transaction")}` },
      s("line", { class: "lane-line", x1: names, x2: right, y1: y - 4, y2: y - 4 }), name, drawn));
    y += label + rows * ROW + 8;
  }
  const steps = right - names > 560 ? 6 : 3;
  const total = view.now_ms - view.from_ms;
  for (let i = 0; i <= steps; i++) {
    const px = x(view.from_ms + (total * i) / steps);
    grid.append(s("line", { x1: px, x2: px, y1: TOP - 8, y2: y }), s("text", { x: px, y: 12,
      "text-anchor": i === steps ? "end" : i === 0 ? "start" : "middle" }, i === steps ? "now"
      : `${span((total * (steps - i)) / steps)}${i === 0 ? " ago" : ""}`));
  }
  const outside = tie(places, ties, width);
  ties.classList.toggle("many", ties.querySelectorAll(".ties").length > MOST_NAMED);
  const svg = s("svg", { class: "lanes", viewBox: `0 0 ${width} ${y}`, width, height: y, role: "group",
    "aria-labelledby": title }, s("title", { id: title },
    `What ${plural(view.lanes.length, "agent")} did in the last ${span(total)}, one lane each`), grid, groups, ties);
  rove(svg, bars.filter((list) => list.length > 0));
  return { svg, left, outside, drawn: places.size };
}

// tie draws what refused whom, and who waits for whom; it answers how many causes are not in the drawing.
function tie(places, into, width) {
  let outside = 0;
  for (const to of places.values()) {
    const { b } = to;
    for (const w of b.end_ms ? [] : b.waits) {
      const from = places.get(w.tx);
      if (from && from !== to) into.append(arrow(from, { x: to.x - 4, y: to.y }, "waits",
        `${b.tx} waits for ${w.tx}`, [b.tx, w.tx]));
    }
    if (!b.by && !b.by_seq) continue;
    const says = `${b.by || `seq ${b.by_seq}`} ${b.code ? "refused" : "would have refused"} ${b.tx}: ${
      b.code || b.would} at ${b.scope || "what it relied on"}`;
    const from = places.get(b.by);
    if (!from) outside++;
    const start = from ?? { x: to.x - 34, y: to.y - 14 };
    const end = { x: to.x - 9, y: to.y };
    const how = `refuses${from ? "" : " from-outside"}${b.code ? "" : " would"}`;
    into.append(arrow(start, end, how, says, [b.tx, b.by]));
    if (from && b.scope) {
      const half = 75; // of the widest name: it stays in the drawing
      into.append(s("text", { class: "on-arc", "data-of": `${b.tx} ${b.by}`, "text-anchor": "middle",
        x: Math.min(width - half, Math.max(half, (start.x + end.x) / 2)), y: (start.y + end.y) / 2 - 4 },
      s("title", {}, b.scope), middle(b.scope, 22)));
    }
  }
  return outside;
}

function bar(b, place, x, now, at) {
  const name = outcome(b);
  const from = x(b.began_ms);
  const to = place.x;
  const end = Math.max(to, x(b.end_ms || now));
  const top = place.y - BAR / 2;
  const says = saysOf(b);
  const el = s("a", { class: `lane-bar ink-${tone(name)}`, href: hrefs.tx(b.tx), tabindex: -1, "aria-label": says },
    s("title", {}, says),
    s("rect", { class: "reach", x: from - 3, y: place.y - ROW / 2 + 1, width: end - from + 12, height: ROW - 2,
      rx: 5 }),
    b.decided_ms && end > to ? s("line", { class: "settles", x1: to, x2: end, y1: place.y, y2: place.y }) : null,
    s("rect", { class: `extent${b.decided_ms || b.end_ms ? "" : " going"}`, x: from, y: top, width: to - from,
      height: BAR, rx: 4 }),
    b.sealed_ms ? s("rect", { class: "sealing", x: Math.min(x(b.sealed_ms), to), y: top,
      width: Math.max(0, to - x(b.sealed_ms)), height: BAR, rx: 3 }) : null,
    b.marks.filter((m) => m.at_ms <= now).map((m) => mark(m, Math.min(x(m.at_ms), end), place.y)),
    b.decided_ms || b.end_ms ? [s("circle", { class: "outcome", cx: to, cy: place.y, r: 8 }),
      s("g", { class: "sign", transform: `translate(${to - 5.6} ${place.y - 5.6}) scale(.7)` }, shape(look(name)[2]))]
      : null);
  for (const kind of ["pointerenter", "focus"]) el.addEventListener(kind, () => at(b));
  return el;
}

// mark draws an act: a read above the bar, a write below, a call as a diamond on it.
function mark(m, px, y) {
  const what = s("title", {}, `${m.kind}${m.tool ? ` ${m.tool}` : ""}${m.scope ? ` ${m.scope}` : ""}`);
  if (m.kind === "read") return s("path", { class: "mark", d: `M${px} ${y - BAR / 2}v-6` }, what);
  if (m.kind === "write") return s("path", { class: "mark", d: `M${px} ${y + BAR / 2}v6` }, what);
  return s("path", { class: "mark call", d: `M${px} ${y - 5}l5 5l-5 5l-5 -5z` }, what);
}

// rove makes one stop of all bars: arrows lead from one to the next.
function rove(svg, bars) {
  let lane = 0;
  let n = 0;
  const flat = bars.flat();
  const go = (to) => {
    lane = to;
    n = Math.min(Math.max(0, n), bars[lane].length - 1);
    for (const el of flat) el.setAttribute("tabindex", -1);
    bars[lane][n].setAttribute("tabindex", 0);
  };
  if (bars.length === 0) return;
  n = bars[0].length - 1;
  go(0);
  svg.addEventListener("focusin", (e) => {
    const el = e.target.closest(".lane-bar");
    bars.forEach((list, i) => {
      if (list.includes(el)) {
        n = list.indexOf(el);
        go(i);
      }
    });
  });
  svg.addEventListener("keydown", (e) => {
    const [down, along] = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[e.key] ?? [];
    if (down === undefined) return;
    e.preventDefault();
    n += along;
    go(Math.min(bars.length - 1, Math.max(0, lane + down)));
    bars[lane][n].focus();
  });
}

// lanesTable says the same in words.
export function lanesTable(view) {
  const rows = view.lanes.flatMap((lane) => lane.bars.map((b) => ({ lane, b })))
    .sort((a, b) => b.b.began_ms - a.b.began_ms);
  return freeTable({ label: "What all agents did, the newest first",
    columns: [{ name: "Began", width: "90px" }, { name: "Agent", width: "18%" }, { name: "Transaction", width: "24%",
      broad: true }, { name: "Stands", width: "110px" }, { name: "Took", width: "84px", right: true },
    { name: "Why", wide: true }],
    rows: rows.map(({ lane, b }) => [clock(b.began_ms), agentLink(lane.agent), txLink(b.tx), look(outcome(b))[0],
      b.decided_ms ? span(b.decided_ms - b.began_ms) : "–", whyOf(b)]) });
}

function whyOf(b) {
  if (b.waits.length > 0) return ["waits for ", txLink(b.waits[0].tx), b.waits[0].scope
    ? [" at ", scopeLink(b.waits[0].scope)] : null];
  if (!b.code && !b.would) return "–";
  return [b.code || `would have been ${b.would}`, b.scope ? [" at ", scopeLink(b.scope)] : null,
    b.by ? [", moved by ", txLink(b.by)] : null];
}

export const legend = () => put(h("p", { class: "legend" }),
  [["a bar", "a transaction, from its begin to its decision"], ["its darker end", "sealed, and not decided yet"],
    ["the line behind", "until it is settled"], ["a tick above", "a read"], ["below", "a write"],
    ["a diamond", "a call"], ["a red arrow", "who moved what another had relied on"],
    ["a dashed one", "who waits for whom"]]
    .map(([what, says], i) => [i > 0 ? " · " : null, h("span", { class: "strong" }, what), ` ${says}`]));
