import { h, put, s, uid } from "./dom.js";
import { int, middle } from "./format.js";
import { shape } from "./icons.js";
import { hrefs, list as listOf, scopeLink, txLink } from "./links.js";
import { look, tone } from "./states.js";
import { freeTable } from "./table.js";

const NODE_W = 184;
const NODE_H = 50;
const WAY_H = 8;
const MOST_WAYS = 600;
const GAP_X = 72;
const GAP_NAMED = 176; // before the one that is shown, where an arc has a name
const GAP_Y = 14;
const PAD = 12;

// edgesOf are the arcs of a closure: from what a transaction rests on to that transaction, once per pair.
export function edgesOf(rows) {
  const known = new Map(rows.map((r) => [r.tx, r]));
  const edges = [];
  for (const row of rows) {
    const pairs = new Map();
    for (const e of row.edges ?? []) {
      if (e.writer && e.writer !== row.tx) pairs.set(e.writer, [...(pairs.get(e.writer) ?? []), e.scope]);
    }
    for (const writer of row.rests_on ?? []) if (!pairs.has(writer) && writer !== row.tx) pairs.set(writer, []);
    for (const [from, scopes] of pairs) if (known.has(from)) edges.push({ from, to: row.tx, scopes });
  }
  return edges;
}

// withOvertaker adds who moved the ground under the transaction that is shown: { tx, seq, scope, code }.
function withOvertaker(closure, over) {
  const rows = [...closure.rows];
  const edges = edgesOf(rows);
  if (!over) return { rows, edges };
  const from = over.tx || `seq ${over.seq}`;
  if (from === closure.tx) return { rows, edges };
  if (!rows.some((r) => r.tx === from)) rows.push({ tx: from, seq: over.seq, status: "", nameless: !over.tx });
  let edge = edges.find((e) => e.from === from && e.to === closure.tx);
  if (!edge) edges.push(edge = { from, to: closure.tx, scopes: [] });
  edge.over = over;
  return { rows, edges };
}

// layersOf puts every transaction left of all that rest on it: by the longest way to the one that is shown.
export function layersOf(rows, edges) {
  const depth = new Map(rows.map((r) => [r.tx, 0]));
  for (let round = 0, moved = true; moved && round < rows.length; round++) {
    moved = false;
    for (const e of edges) {
      const want = depth.get(e.to) + 1;
      if (depth.get(e.from) < want && want <= rows.length) {
        depth.set(e.from, want);
        moved = true;
      }
    }
  }
  const layers = [];
  for (const row of rows) (layers[depth.get(row.tx)] ??= []).push(row);
  return layers.filter(Boolean);
}

// withWays adds a way point in every layer that an arc passes, so that arcs lead around transactions, not behind them.
function withWays(layers, edges) {
  const layerOf = new Map();
  const cells = layers.map((layer, n) => layer.map((row) => {
    layerOf.set(row.tx, n);
    return { id: row.tx, row, seq: row.seq ?? 0, size: NODE_H };
  }));
  const links = []; // between cells of neighbouring layers: [near the one that is shown, further away]
  let ways = 0;
  for (const e of edges) {
    let near = e.to;
    e.ways = [];
    for (let n = layerOf.get(e.to) + 1; n < layerOf.get(e.from) && ways < MOST_WAYS; n++) {
      const id = `way ${ways++}`;
      cells[n].push({ id, seq: 0, size: WAY_H });
      e.ways.unshift(id);
      links.push([near, id]);
      near = id;
    }
    links.push([near, e.from]);
  }
  return { cells, links };
}

// order sorts each layer by where its neighbours lie, back and forth, so that few arcs cross.
function order(cells, links) {
  const place = new Map();
  const note = (layer) => layer.forEach((cell, i) => place.set(cell.id, (i + 0.5) / layer.length));
  cells.forEach(note);
  const beside = [new Map(), new Map()];
  for (const [near, far] of links) {
    beside[0].set(far, [...(beside[0].get(far) ?? []), near]);
    beside[1].set(near, [...(beside[1].get(near) ?? []), far]);
  }
  for (let round = 0; round < 6; round++) {
    const of = beside[round % 2];
    const turn = round % 2 === 0 ? cells : [...cells].reverse();
    for (const layer of turn) {
      const want = new Map(layer.map((cell) => {
        const at = of.get(cell.id) ?? [];
        return [cell.id, at.length > 0 ? at.reduce((a, b) => a + place.get(b), 0) / at.length : place.get(cell.id)];
      }));
      layer.sort((a, b) => want.get(a.id) - want.get(b.id) || a.seq - b.seq);
      note(layer);
    }
  }
}

function positions(cells, gap) {
  const tall = (layer) => layer.reduce((sum, cell) => sum + cell.size + GAP_Y, -GAP_Y);
  const height = Math.max(...cells.map(tall));
  const at = new Map();
  const own = PAD + (cells.length - 1) * (NODE_W + GAP_X) + (cells.length > 1 ? gap - GAP_X : 0);
  cells.forEach((layer, n) => {
    let y = PAD + (height - tall(layer)) / 2;
    for (const cell of layer) {
      const x = n === 0 ? own : PAD + (cells.length - 1 - n) * (NODE_W + GAP_X);
      at.set(cell.id, { x, y, middle: y + cell.size / 2 });
      y += cell.size + GAP_Y;
    }
  });
  return { at, width: own + NODE_W + PAD, height: height + 2 * PAD };
}

// graph draws a closure: what the transaction rests on, to its left, and who overtook it, in red. Every node is a
// link; what an arc is about is said where it is pointed at, and in the list below.
export function graph(closure, { links = true, over = null } = {}) {
  const { rows, edges } = withOvertaker(closure, over);
  if (rows.length < 2) return h("p", { class: "muted" }, hint(edges));
  const { cells, links: between } = withWays(layersOf(rows, edges), edges);
  order(cells, between);
  const { at, width, height } = positions(cells, edges.some((e) => e.over?.scope) ? GAP_NAMED : GAP_X);
  const title = uid("graph");
  const arcs = s("g", { class: "arcs" });
  const nodes = s("g");
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "graph", role: "group",
    "aria-labelledby": title },
    s("title", { id: title }, `What ${closure.tx} rests on, and what moved: ${rows.length - 1} transactions`), arcs,
    nodes);
  const moved = edges.find((e) => e.over);
  const rest = () => [moved ? `${sentence(moved)} ` : null, hint(edges)];
  const reading = h("p", { class: "reading", "aria-live": "polite" }, rest());
  const drawn = edges.map((e) => {
    const points = [e.from, ...e.ways, e.to].map((id) => at.get(id));
    const path = s("path", { d: arc(points), class: `arc${e.over ? " over" : ""}` }, s("title", {}, sentence(e)));
    arcs.append(path);
    if (e.over?.scope) nodes.append(named(e, points));
    return { e, path };
  });
  const mark = (tx) => {
    for (const { e, path } of drawn) path.classList.toggle("near", e.from === tx || e.to === tx);
    const about = tx ? edges.filter((e) => e.to === tx || e.from === tx) : [];
    put(reading, about.length > 0 ? about.slice(0, 4).map((e, i) => [i > 0 ? h("br") : null, sentence(e)])
      : rest(),
      about.length > 4 ? [h("br"), `and ${about.length - 4} more`] : null);
  };
  for (const row of rows) nodes.append(node(row, at.get(row.tx), { links, mark, own: row.tx === closure.tx,
    over: row.tx === moved?.from }));
  const scroll = h("div", { class: "graph-scroll", tabindex: 0, role: "region", "aria-label": "Graph of causes" },
    svg);
  requestAnimationFrame(() => {
    scroll.scrollLeft = scroll.scrollWidth; // the one that is shown is at the right
    scroll.scrollTop = at.get(closure.tx).middle - scroll.clientHeight / 2;
  });
  return h("div", {}, scroll, reading,
    list(edges, links), closure.truncated ? h("p", { class: "sub" },
      `Only ${closure.limit} transactions are walked; it rests on more.`) : null);
}

const hint = (edges) => (edges.length > 0 ? "Point at a transaction, or move to it with Tab, to see what leads to it."
  : "It read nothing that another transaction wrote, as far as it is remembered.");

// stands is how a row's transaction was decided; settled ones were committed or aborted before.
const stands = (row) => (row.status === "settled" ? (row.code ? "aborted" : "committed") : row.status);

function sentence(e) {
  if (e.over) return `${e.from} moved ${e.over.scope || "what it relied on"}${e.over.seq ? ` at seq ${int(e.over.seq)}`
    : ""}: ${e.to} ${e.over.would ? "would have been" : "was"} refused, ${e.over.code}.`;
  if (e.scopes.length === 0) return `${e.to} rests on ${e.from}.`;
  const more = e.scopes.length > 3 ? ` and ${e.scopes.length - 3} more` : "";
  return `${e.to} read ${e.scopes.slice(0, 3).join(", ")}${more}, written by ${e.from}.`;
}

function arc(points) {
  let d = `M${points[0].x + NODE_W} ${points[0].middle}`;
  for (let i = 1; i < points.length; i++) {
    const last = i === points.length - 1;
    const x1 = points[i - 1].x + NODE_W;
    const x2 = points[i].x - (last ? 6 : 0);
    const bend = (x2 - x1) * 0.55;
    d += `C${x1 + bend} ${points[i - 1].middle} ${x2 - bend} ${points[i].middle} ${x2} ${points[i].middle}`;
    if (!last) d += `h${NODE_W}`;
  }
  const end = points[points.length - 1];
  return `${d}M${end.x - 12} ${end.middle - 4}L${end.x - 5} ${end.middle}L${end.x - 12} ${end.middle + 4}`;
}

// named writes the scope on its arc.
function named(e, points) {
  const [from, to] = points.slice(-2);
  return s("text", { class: "on-arc", "text-anchor": "middle", x: (from.x + NODE_W + to.x) / 2,
    y: (from.middle + to.middle) / 2 - 7 }, s("title", {}, e.over.scope), middle(e.over.scope, 23));
}

function node(row, at, { own, over, links, mark }) {
  const status = stands(row);
  const [word] = over && !status ? ["moved it"] : look(status);
  const content = [
    s("rect", { width: NODE_W, height: NODE_H, rx: 8, class: "box" }),
    s("g", { class: `badge ink-${tone(status)}`, transform: "translate(11 10) scale(.875)" }, shape(look(status)[2])),
    s("text", { x: 33, y: 21, class: "id" }, middle(row.tx, 19)),
    s("text", { x: 33, y: 38, class: "about" }, row.code || `${word}${row.seq ? ` at seq ${int(row.seq)}` : ""}`),
  ];
  const label = `${row.tx}, ${word}${row.seq ? ` at seq ${int(row.seq)}` : ""}${row.code ? `, ${row.code}` : ""}${
    row.agent ? `, agent ${row.agent}` : ""}`;
  const props = { class: `node${own ? " own" : ""}${over ? " over" : ""}${row.scar ? " scar" : ""}`,
    transform: `translate(${at.x} ${at.y})`, "aria-label": label };
  const g = links && !own ? s("a", { ...props, href: row.nameless ? hrefs.seq(row.seq) : hrefs.tx(row.tx) },
    ...content)
    : s("g", { ...props, tabindex: 0, role: "img" }, ...content);
  g.append(s("title", {}, label));
  for (const name of ["pointerenter", "focus"]) g.addEventListener(name, () => mark(row.tx));
  for (const name of ["pointerleave", "blur"]) g.addEventListener(name, () => mark(null));
  return g;
}

function list(edges, links) {
  if (edges.length === 0) return null;
  const of = (e) => (e.over ? [e.over.scope] : e.scopes).filter(Boolean);
  return h("details", {}, h("summary", {}, "As a list"), freeTable({ label: "Causes", least: 560,
    columns: [{ name: "Transaction", wide: true }, { name: "How", width: "130px" }, { name: "Which", wide: true },
      { name: "Through", wide: true }],
    rows: edges.map((e) => [txLink(e.to, links), e.over ? "was overtaken by" : "rests on",
      /^seq /.test(e.from) ? e.from : txLink(e.from, links),
      of(e).length > 0 ? listOf(of(e), (x) => scopeLink(x, links)) : "what its sidecar said"]) }));
}
