import { h, put, s, uid } from "./dom.js";
import { middle } from "./format.js";
import { shape } from "./icons.js";
import { look, tone } from "./states.js";
import { txHref } from "./api.js";

const NODE_W = 190;
const NODE_H = 50;
const GAP_X = 110;
const GAP_Y = 18;
const PAD = 10;

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

// order sorts each layer by where its neighbours in the layer before lie, so that few arcs cross.
function order(layers, edges) {
  const place = new Map();
  layers.forEach((layer, n) => {
    if (n > 0) {
      const middleOf = (row) => {
        const at = edges.filter((e) => e.from === row.tx && place.has(e.to)).map((e) => place.get(e.to));
        return at.length > 0 ? at.reduce((a, b) => a + b, 0) / at.length : 1e9;
      };
      const keyed = layer.map((row) => [middleOf(row), row]);
      keyed.sort((a, b) => a[0] - b[0] || (a[1].seq ?? 0) - (b[1].seq ?? 0));
      keyed.forEach(([, row], i) => {
        layer[i] = row;
      });
    }
    layer.forEach((row, i) => place.set(row.tx, (i + 0.5) / layer.length));
  });
}

function positions(layers) {
  const height = Math.max(...layers.map((l) => l.length)) * (NODE_H + GAP_Y) - GAP_Y;
  const at = new Map();
  layers.forEach((layer, n) => {
    const own = layer.length * (NODE_H + GAP_Y) - GAP_Y;
    layer.forEach((row, i) => at.set(row.tx, {
      x: PAD + (layers.length - 1 - n) * (NODE_W + GAP_X), y: PAD + (height - own) / 2 + i * (NODE_H + GAP_Y),
    }));
  });
  return { at, width: layers.length * (NODE_W + GAP_X) - GAP_X + 2 * PAD, height: height + 2 * PAD };
}

// graph draws a closure: what the transaction rests on, to its left. Every node is a link; what an arc is about is said
// where it is pointed at, and in the list below.
export function graph(closure, { links = true } = {}) {
  const rows = closure.rows;
  const edges = edgesOf(rows);
  if (rows.length < 2) return h("p", { class: "muted" }, hint(edges));
  const layers = layersOf(rows, edges);
  order(layers, edges);
  const { at, width, height } = positions(layers);
  const title = uid("graph");
  const arcs = s("g", { class: "arcs" });
  const nodes = s("g");
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "graph", role: "group", "aria-labelledby": title },
    s("title", { id: title }, `What ${closure.tx} rests on: ${rows.length - 1} transactions`), arcs, nodes);
  const reading = h("p", { class: "reading", "aria-live": "polite" }, hint(edges));
  const drawn = edges.map((e) => {
    const path = s("path", { d: arc(at.get(e.from), at.get(e.to)), class: "arc" }, s("title", {}, sentence(e)));
    arcs.append(path);
    return { e, path };
  });
  const mark = (tx) => {
    for (const { e, path } of drawn) path.classList.toggle("near", e.from === tx || e.to === tx);
    const about = tx ? edges.filter((e) => e.to === tx || e.from === tx) : [];
    put(reading, about.length > 0 ? about.slice(0, 4).map((e, i) => [i > 0 ? h("br") : null, sentence(e)]) : hint(edges),
      about.length > 4 ? [h("br"), `and ${about.length - 4} more`] : null);
  };
  for (const row of rows) nodes.append(node(row, at.get(row.tx), row.tx === closure.tx, links, mark));
  return h("div", {}, h("div", { class: "graph-scroll", tabindex: 0, role: "region", "aria-label": "Graph of causes" }, svg), reading,
    list(rows, edges, links), closure.truncated ? h("p", { class: "sub" }, `Only ${closure.limit} transactions are walked; it rests on more.`) : null);
}

const hint = (edges) => (edges.length > 0 ? "Point at a transaction, or move to it with Tab, to see what leads to it."
  : "It read nothing that another transaction wrote, as far as it is remembered.");

// stands is how a row's transaction was decided; settled ones were committed or aborted before.
const stands = (row) => (row.status === "settled" ? (row.code ? "aborted" : "committed") : row.status);

const sentence = (e) => (e.scopes.length > 0
  ? `${e.to} read ${e.scopes.slice(0, 3).join(", ")}${e.scopes.length > 3 ? ` and ${e.scopes.length - 3} more` : ""}, written by ${e.from}.`
  : `${e.to} rests on ${e.from}.`);

function arc(a, b) {
  const x1 = a.x + NODE_W;
  const y1 = a.y + NODE_H / 2;
  const x2 = b.x;
  const y2 = b.y + NODE_H / 2;
  const bend = Math.max(30, (x2 - x1) / 2);
  return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2 - 6} ${y2}M${x2 - 12} ${y2 - 4}L${x2 - 5} ${y2}L${x2 - 12} ${y2 + 4}`;
}

function node(row, at, own, links, mark) {
  const status = stands(row);
  const [word] = look(status);
  const content = [
    s("rect", { width: NODE_W, height: NODE_H, rx: 8, class: "box" }),
    s("g", { class: `badge ink-${tone(status)}`, transform: "translate(11 10) scale(.875)" }, shape(look(status)[2])),
    s("text", { x: 33, y: 21, class: "id" }, middle(row.tx, 21)),
    s("text", { x: 33, y: 38, class: "about" }, `${word}${row.seq ? ` at ${row.seq}` : ""}${row.code ? `, ${row.code}` : ""}`),
  ];
  const label = `${row.tx}, ${word}${row.seq ? ` at seq ${row.seq}` : ""}${row.agent ? `, agent ${row.agent}` : ""}`;
  const props = { class: `node${own ? " own" : ""}${row.scar ? " scar" : ""}`, transform: `translate(${at.x} ${at.y})`, "aria-label": label };
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
  return h("details", {}, h("summary", {}, "As a list"), h("div", { class: "table-scroll" }, h("table", { class: "free" },
    h("thead", {}, h("tr", {}, ["Transaction", "rests on", "through"].map((t) => h("th", { scope: "col" }, t)))),
    h("tbody", {}, edges.map((e) => h("tr", {}, h("td", {}, h("code", {}, e.to)),
      h("td", {}, links ? h("a", { href: txHref(e.from) }, h("code", {}, e.from)) : h("code", {}, e.from), ` ${look(stands(byTx.get(e.from)))[0]}`),
      h("td", {}, h("code", {}, e.scopes.join(", ") || "what its sidecar said"))))))));
}
