import { attr, h, put, uid } from "./dom.js";
import { icon } from "./icons.js";

const ROW = 40; // pixels, as the style sheet has it
const BEYOND = 8; // rows drawn above and below what can be seen

// table draws only the rows that can be seen, however many there are. A row keeps its element for as long as its key
// is there, so that the focus stays where it is.
//
// columns: [{ name, width, right, draw(cell, row), sign(row) }]; sign says when a cell must be drawn again.
export function table({ label, columns, key, empty, tall = true, height }) {
  const caption = uid("caption");
  const head = h("tr", { "aria-rowindex": 1 }, columns.map((c) =>
    h("th", { scope: "col", class: c.right ? "right" : null }, c.name || h("span", { class: "hidden-text" },
      c.title))));
  const above = spacer(columns.length);
  const below = spacer(columns.length);
  const body = h("tbody", {}, above, below);
  const cols = h("colgroup", {}, columns.map((c) => h("col", c.width ? { width: c.width } : {})));
  const grid = h("table", { "aria-labelledby": caption }, h("caption", { id: caption, class: "hidden-text" }, label),
    cols, h("thead", {}, head), body);
  const scroll = h("div", { class: `table-scroll${tall ? " tall" : ""}`, tabindex: 0, role: "region",
    "aria-labelledby": caption },
    grid);
  if (height) scroll.style.height = height;
  const nothing = h("div", { class: "empty", hidden: true });
  const root = h("div", {}, scroll, nothing);
  const shown = new Map(); // by key: { tr, signs }
  let rows = [];
  let frame = 0;

  function spacer(span) {
    return h("tr", { class: "spacer", "aria-hidden": "true" }, h("td", { colspan: span }));
  }

  function place() {
    frame = 0;
    const top = Math.max(0, Math.floor(scroll.scrollTop / ROW) - BEYOND);
    const room = Math.ceil(Math.max(scroll.clientHeight, window.innerHeight) / ROW) + 2 * BEYOND;
    const bottom = Math.min(rows.length, top + room);
    const keep = new Set();
    for (let i = top; i < bottom; i++) keep.add(key(rows[i]));
    for (const [k, entry] of shown) {
      if (!keep.has(k)) {
        entry.tr.remove();
        shown.delete(k);
      }
    }
    above.firstChild.style.height = `${top * ROW}px`;
    below.firstChild.style.height = `${Math.max(0, rows.length - bottom) * ROW}px`;
    let before = above;
    for (let i = top; i < bottom; i++) {
      const tr = drawn(rows[i], i);
      if (before.nextSibling !== tr) before.after(tr);
      before = tr;
    }
  }

  function drawn(row, i) {
    const k = key(row);
    let entry = shown.get(k);
    if (!entry) {
      entry = { tr: h("tr", {}, columns.map((c) => h("td", { class: c.right ? "right" : null }))), signs: [] };
      shown.set(k, entry);
    }
    attr(entry.tr, "aria-rowindex", i + 2);
    attr(entry.tr, "class", row.leaving ? "leaving" : null);
    columns.forEach((c, n) => {
      const sign = c.sign(row);
      if (entry.signs[n] !== sign) {
        entry.signs[n] = sign;
        c.draw(entry.tr.cells[n], row);
      }
    });
    return entry.tr;
  }

  function soon() {
    if (!frame) frame = requestAnimationFrame(place);
  }

  scroll.addEventListener("scroll", soon, { passive: true });
  return {
    root,
    scroll,
    // set shows rows; they are given whole, in order.
    set(list) {
      rows = list;
      attr(grid, "aria-rowcount", rows.length + 1);
      scroll.hidden = rows.length === 0 && Boolean(empty);
      nothing.hidden = !scroll.hidden;
      if (!nothing.hidden && nothing.childElementCount === 0) put(nothing, ...emptyState(empty));
      place();
    },
    // busy says whether somebody is in the middle of the rows.
    busy: () => body.contains(document.activeElement) || scroll.scrollTop > ROW / 2,
    hovered: () => body.matches(":hover"),
  };
}

function emptyState(empty) {
  return [icon(empty.icon ?? "empty"), h("strong", {}, empty.title), h("p", {}, empty.text),
    empty.code ? h("pre", { tabindex: 0 }, empty.code) : null];
}

export const nothingHere = (empty) => h("div", { class: "empty" }, emptyState(empty));
