import { attr, h, put, text, uid } from "./dom.js";
import { int } from "./format.js";
import { icon } from "./icons.js";

const ROW = 40; // pixels, as the style sheet has it
const BEYOND = 8; // rows drawn above and below what can be seen
const SHORT = 8; // letters that fit into any column
const CARDS = 30; // drawn at first, and with each demand for more

// The roles are said because a card's display would take them away.
const cell = (c, ...content) => h("td", { role: "cell", "data-name": c.name,
  class: ["right", "wide", "broad"].filter((x) => c[x]).join(" ") }, ...content);
const heads = (columns) => columns.map((c) => h("th", { role: "columnheader", scope: "col",
  class: c.right ? "right" : null }, c.name));
const cols = (columns) => h("colgroup", {}, columns.map((c) => h("col", c.width ? { width: c.width } : {})));

// asCards makes a table one of cards while it has less space than it needs: nothing is lost, all of it is below each
// other. changed is told.
function asCards(box, grid, least, changed) {
  let cards = null;
  new ResizeObserver(([entry]) => {
    const now = entry.contentRect.width < least;
    if (now === cards || entry.contentRect.width === 0) return;
    cards = now;
    grid.classList.toggle("cards", cards);
    box.classList.toggle("of-cards", cards);
    changed?.(cards);
  }).observe(box);
}

// freeTable draws rows of any height, all of them: [[content of each column]], or { className, cells }.
export function freeTable({ label, columns, rows, least = 860 }) {
  const grid = h("table", { class: "free", role: "table" }, h("caption", { class: "hidden-text" }, label),
    cols(columns), h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads(columns))),
    h("tbody", { role: "rowgroup" }, rows.map((r) => h("tr", { role: "row", class: r.className },
      (r.cells ?? r).map((content, i) => cell(columns[i], content))))));
  const box = h("div", { class: "table-scroll" }, grid);
  asCards(box, grid, least);
  return box;
}

// table draws only the rows that can be seen, however many there are. A row keeps its element for as long as its key
// is there, so that the focus stays where it is. Cards are as high as they must be: the first are drawn, and more
// where they are asked for.
//
// columns: [{ name, width, right, wide, broad, draw(cell, row), sign(row) }]; sign says when a cell must be drawn
// again, wide gives it a line of its own on a card, broad two places. least is the width in pixels below which rows
// are cards.
export function table({ label, columns, key, empty, tall = true, height, least = 860 }) {
  const caption = uid("caption");
  const head = h("tr", { role: "row", "aria-rowindex": 1 }, heads(columns));
  const above = spacer(columns.length);
  const below = spacer(columns.length);
  const body = h("tbody", { role: "rowgroup" }, above, below);
  const grid = h("table", { role: "table", "aria-labelledby": caption },
    h("caption", { id: caption, class: "hidden-text" }, label), cols(columns), h("thead", { role: "rowgroup" }, head),
    body);
  const scroll = h("div", { class: `table-scroll${tall ? " tall" : ""}`, tabindex: 0, role: "region",
    "aria-labelledby": caption },
    grid);
  if (height) scroll.style.height = height;
  const nothing = h("div", { class: "empty", hidden: true });
  const more = h("button", { class: "button more", type: "button", hidden: true, onclick: () => {
    drawnCards += CARDS;
    place();
  } });
  const root = h("div", {}, scroll, more, nothing);
  const shown = new Map(); // by key: { tr, signs }
  let rows = [];
  let frame = 0;
  let cards = false;
  let drawnCards = CARDS;

  function spacer(span) {
    return h("tr", { class: "spacer", "aria-hidden": "true" }, h("td", { colspan: span }));
  }

  function place() {
    frame = 0;
    const top = cards ? 0 : Math.max(0, Math.floor(scroll.scrollTop / ROW) - BEYOND);
    const most = cards ? drawnCards : Math.ceil(Math.max(scroll.clientHeight, window.innerHeight) / ROW) + 2 * BEYOND;
    const bottom = Math.min(rows.length, top + most);
    more.hidden = !cards || bottom === rows.length;
    text(more, `Show ${int(Math.min(CARDS, rows.length - bottom))} more of ${int(rows.length)}`);
    const keep = new Set();
    for (let i = top; i < bottom; i++) keep.add(key(rows[i]));
    for (const [k, entry] of shown) {
      if (!keep.has(k)) {
        entry.tr.remove();
        shown.delete(k);
      }
    }
    above.firstChild.style.height = `${top * ROW}px`;
    below.firstChild.style.height = `${cards ? 0 : Math.max(0, rows.length - bottom) * ROW}px`;
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
      entry = { tr: h("tr", { role: "row" }, columns.map((c) => cell(c))), signs: [] };
      shown.set(k, entry);
    }
    attr(entry.tr, "aria-rowindex", i + 2);
    attr(entry.tr, "class", row.leaving ? "leaving" : null);
    columns.forEach((c, n) => {
      const sign = c.sign(row);
      if (entry.signs[n] !== sign) {
        entry.signs[n] = sign;
        const td = entry.tr.cells[n];
        c.draw(td, row);
        attr(td, "title", td.textContent.length > SHORT ? td.textContent : null); // it may be cut
        td.classList.toggle("none", td.textContent === "–"); // a card has no place for it
      }
    });
    return entry.tr;
  }

  function soon() {
    if (!frame) frame = requestAnimationFrame(place);
  }

  scroll.addEventListener("scroll", soon, { passive: true });
  asCards(scroll, grid, least, (now) => {
    cards = now;
    place();
  });
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
    // busy says whether the reader is in the middle of the rows.
    busy: () => body.contains(document.activeElement) || scroll.scrollTop > ROW / 2 || cards && drawnCards > CARDS,
  };
}

function emptyState(empty) {
  return [icon(empty.icon ?? "empty"), h("strong", {}, empty.title), h("p", {}, empty.text),
    empty.code ? h("pre", { tabindex: 0 }, empty.code) : null];
}

export const nothingHere = (empty) => h("div", { class: "empty" }, emptyState(empty));
