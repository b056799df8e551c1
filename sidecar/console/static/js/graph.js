import { h, put, s, uid } from "./dom.js";
import { middle } from "./format.js";
import { shape } from "./icons.js";
import { look, tone } from "./states.js";
import { txHref } from "./api.js";

const NODE_W = 184;
const NODE_H = 50;
const WAY_H = 8;
const MOST_WAYS = 600;
const GAP_X = 72;
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

function positions(cells) {
  const tall = (layer) => layer.reduce((sum, cell) => sum + cell.size + GAP_Y, -GAP_Y);
  const height = Math.max(...cells.map(tall));
  const at = new Map();
  cells.forEach((layer, n) => {
    let y = PAD + (height - tall(layer)) / 2;
    for (const cell of layer) {
      at.set(cell.id, { x: PAD + (cells.length - 1 - n) * (NODE_W + GAP_X), y, middle: y + cell.size / 2 });
      y += cell.size + GAP_Y;
    }
  });
  return { at, width: cells.length * (NODE_W + GAP_X) - GAP_X + 2 * PAD, height: height + 2 * PAD };
}

// graph draws a closure: what the transaction rests on, to its left. Every node is a link; what an arc is about is
// said where it is pointed at, and in the list below.
export function graph(closure, { links = true } = {}) {
  const rows = closure.rows;
  const edges = edgesOf(rows);
  if (rows.length < 2) return h("p", { class: "muted" }, hint(edges));
  const { cells, links: between } = withWays(layersOf(rows, edges), edges);
  order(cells, between);
  const { at, width, height } = positions(cells);
  const title = uid("graph");
  const arcs = s("g", { class: "arcs" });
  const nodes = s("g");
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "graph", role: "group",
    "aria-labelledby": title },
    s("title", { id: title }, `What ${closure.tx} rests on: ${rows.length - 1} transactions`), arcs, nodes);
  const reading = h("p", { class: "reading", "aria-live": "polite" }, hint(edges));
  const drawn = edges.map((e) => {
    const path = s("path", { d: arc([e.from, ...e.ways, e.to].map((id) => at.get(id))), class: "arc" },
      s("title", {}, sentence(e)));
    arcs.append(path);
    return { e, path };
  });
  const mark = (tx) => {
    for (const { e, path } of drawn) path.classList.toggle("near", e.from === tx || e.to === tx);
    const about = tx ? edges.filter((e) => e.to === tx || e.from === tx) : [];
    put(reading, about.length > 0 ? about.slice(0, 4).map((e, i) => [i > 0 ? h("br") : null, sentence(e)])
      : hint(edges),
      about.length > 4 ? [h("br"), `and ${about.length - 4} more`] : null);
  };
  for (const row of rows) nodes.append(node(row, at.get(row.tx), row.tx === closure.tx, links, mark));
  const scroll = h("div", { class: "graph-scroll", tabindex: 0, role: "region", "aria-label": "Graph of causes" },
    svg);
  requestAnimationFrame(() => {
    scroll.scrollLeft = scroll.scrollWidth; // the one that is shown is at the right
    scroll.scrollTop = at.get(closure.tx).middle - scroll.clientHeight / 2;
  });
  return h("div", {}, scroll, reading,
    list(rows, edges, links), closure.truncated ? h("p", { class: "sub" },
      `Only ${closure.limit} transactions are walked; it rests on more.`) : null);
}

const hint = (edges) => (edges.length > 0 ? "Point at a transaction, or move to it with Tab, to see what leads to it."
  : "It read nothing that another transaction wrote, as far as it is remembered.");

// stands is how a row's transaction was decided; settled ones were committed or aborted before.
const stands = (row) => (row.status === "settled" ? (row.code ? "aborted" : "committed") : row.status);

function sentence(e) {
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

function node(row, at, own, links, mark) {
  const status = stands(row);
  const [word] = look(status);
  const content = [
    s("rect", { width: NODE_W, height: NODE_H, rx: 8, class: "box" }),
    s("g", { class: `badge ink-${tone(status)}`, transform: "translate(11 10) scale(.875)" }, shape(look(status)[2])),
    s("text", { x: 33, y: 21, class: "id" }, middle(row.tx, 21)),
    s("text", { x: 33, y: 38, class: "about" },
      `${word}${row.seq ? ` at ${row.seq}` : ""}${row.code ? `, ${row.code}` : ""}`),
  ];
  const label = `${row.tx}, ${word}${row.seq ? ` at seq ${row.seq}` : ""}${row.agent ? `, agent ${row.agent}` : ""}`;
  const props = { class: `node${own ? " own" : ""}${row.scar ? " scar" : ""}`,
    transform: `translate(${at.x} ${at.y})`, "aria-label": label };
  const g = links && !own ? s("a", { ...props, href: txHref(row.tx) }, ...content)
    : s("g", { ...props, tabindex: 0, role: "img" }, ...content);
  g.append(s("title", {}, label));
  for (const name of ["pointerenter", "focus"]) g.addEventListener(name, () => mark(row.tx));
  for (const name of ["pointerleave", "blur"]) g.addEventListener(name, () => mark(null));
  return g;
}

function list(rows, edges, links) {
  if (edges.length === 0) return null;
  const byTx = new Map(rows.map((r) => [r.tx, r]));
  return h("details", {}, h("summary", {}, "As a list"), h("div", { class: "table-scroll" },
    h("table", { class: "free" },
    h("thead", {}, h("tr", {}, ["Transaction", "rests on", "through"].map((t) => h("th", { scope: "col" }, t)))),
    h("tbody", {}, edges.map((e) => h("tr", {}, h("td", {}, h("code", {}, e.to)),
      h("td", {}, links ? h("a", { href: txHref(e.from) }, h("code", {}, e.from)) : h("code", {}, e.from),
        ` ${look(stands(byTx.get(e.from)))[0]}`),
      h("td", {}, h("code", {}, e.scopes.join(", ") || "what its sidecar said"))))))));
}
