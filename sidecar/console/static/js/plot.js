import { h, put, s, text, uid } from "./dom.js";
import { clock, count, span as duration } from "./format.js";

const START_W = 640;
const H = 150;
const LEFT = 48;
const BOTTOM = 22;
const TOP = 10;

// niceTop is the least round number over a value of which the half is round, too.
export function niceTop(v) {
  if (v <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(v));
  for (const f of [1, 2, 4, 10]) if (f * power >= v) return f * power;
  return 10 * power;
}

// plot draws series over the last minutes. series: [{ name, tone, kind: "bars" | "line" | "dashed", value(second) }];
// bars are stacked in their order. summary(seconds) is what it says in words. Values are counts, or milliseconds.
export function plot({ title, note, ms = false, series, summary, floor = 1 }) {
  const write = ms ? duration : count;
  let span = 120; // seconds that are shown
  const id = uid("plot");
  let W = START_W; // as many as there are pixels: letters are not stretched
  const marks = s("g");
  const axis = s("g", { class: "axis" });
  const cursor = s("line", { class: "cursor", y1: TOP, y2: H - BOTTOM, visibility: "hidden" });
  const svg = s("svg", { viewBox: `0 0 ${W} ${H}`, class: "plot", role: "img", "aria-labelledby": id, tabindex: 0 },
    axis, marks, cursor);
  const words = h("span", { id, class: "hidden-text" });
  const legend = h("div", { class: "legend num" });
  const when = h("span", { class: "when num" });
  const values = [];
  const body = h("tbody");
  const asTable = h("details", { class: "as-table" }, h("summary", {}, "As a table"),
    h("div", { class: "table-scroll" },
    h("table", {}, h("caption", { class: "hidden-text" }, title), h("thead", {},
      h("tr", {}, h("th", { scope: "col" }, "Second"),
      series.map((x) => h("th", { scope: "col", class: "right" }, x.name)))), body)));
  const root = h("section", { class: "card plot-card", "aria-label": title },
    h("header", {}, h("h2", {}, title), note ? h("p", {}, note) : null),
    h("div", { class: "body" }, legend, svg, words), asTable, when);
  let current = series;
  let data = [];
  let at = -1;

  function drawLegend() {
    values.length = 0;
    put(legend, current.map((x) => h("span", { class: "key" }, s("svg",
      { viewBox: "0 0 14 10", "aria-hidden": "true" },
      x.kind === "bars" ? s("rect", { x: 2, y: 1, width: 10, height: 8, rx: 2, class: `fill-${x.tone}` })
        : s("line", { x1: 0, y1: 5, x2: 14, y2: 5, class: `stroke-${x.tone} ${x.kind}` })), x.name, valueOf(x))));
  }

  function valueOf() {
    const el = h("span", { class: "strong" });
    values.push(el);
    return el;
  }

  const x = (i) => LEFT + ((W - LEFT) * (i + span - data.length)) / span;
  let wide = (W - LEFT) / span;

  const sized = new ResizeObserver(([entry]) => {
    const width = Math.max(240, Math.round(entry.contentRect.width));
    if (width === W) return;
    W = width;
    wide = (W - LEFT) / span;
    svg.setAttribute("viewBox", `0 0 ${W} ${H}`);
    draw();
  });

  function draw() {
    const bars = current.filter((v) => v.kind === "bars");
    let most = floor;
    for (const d of data) {
      let sum = 0;
      for (const b of bars) sum += b.value(d);
      most = Math.max(most, sum, ...current.filter((v) => v.kind !== "bars").map((v) => v.value(d)));
    }
    const top = niceTop(most);
    const y = (v) => H - BOTTOM - ((H - BOTTOM - TOP) * v) / top;
    put(axis, [0, 0.5, 1].map((f) => [s("line", { x1: LEFT, x2: W, y1: y(f * top), y2: y(f * top) }),
      s("text", { x: LEFT - 8, y: y(f * top) + 3.5, "text-anchor": "end" },
        write(f * top))]),
    [[`${span / 60} min ago`, LEFT, "start"], ["now", W, "end"]].map(([word, px, anchor]) =>
      s("text", { x: px, y: H - 5, "text-anchor": anchor }, word)));
    const base = data.map(() => 0);
    put(marks, bars.map((b) => s("path", { class: `fill-${b.tone}`, d: stacked(b, base, y) })),
      current.filter((v) => v.kind !== "bars").map((v) => s("path", { class: `stroke-${v.tone} ${v.kind}`,
        d: line(v, y) })));
    text(words, `${title}. ${data.length > 0 ? summary(data) : "Nothing yet."}`);
    point(at);
    if (asTable.open) fillTable();
  }

  function stacked(b, base, y) {
    let d = "";
    data.forEach((v, i) => {
      const value = b.value(v);
      if (value <= 0) return;
      const low = base[i];
      base[i] += value;
      const [bottom, end] = [y(low).toFixed(1), y(base[i]).toFixed(1)];
      d += `M${x(i).toFixed(1)} ${bottom}V${end}h${(wide * 0.86).toFixed(2)}V${bottom}z`;
    });
    return d;
  }

  function line(v, y) {
    let d = "";
    let down = false;
    data.forEach((one, i) => {
      if (v.skip?.(one)) {
        down = false;
        return;
      }
      d += `${down ? "L" : "M"}${(x(i) + wide / 2).toFixed(1)} ${y(v.value(one)).toFixed(1)}`;
      if (!down) d += "h.01"; // a lonely point is seen too
      down = true;
    });
    return d;
  }

  // point shows one second's values in words under the plot.
  function point(i) {
    at = i;
    const one = i >= 0 ? data[i] : data[data.length - 1];
    cursor.setAttribute("visibility", i >= 0 ? "visible" : "hidden");
    text(when, one ? clock(one.at * 1000) : "");
    current.forEach((v, n) => text(values[n], one && !v.skip?.(one)
      ? write(v.value(one)) : "–"));
    if (!one) return;
    if (i >= 0) {
      cursor.setAttribute("x1", x(i) + wide / 2);
      cursor.setAttribute("x2", x(i) + wide / 2);
    }
  }

  function fillTable() {
    put(body, data.slice(-60).reverse().map((d) => h("tr", {}, h("th", { scope: "row" }, clock(d.at * 1000)),
      current.map((v) => h("td", { class: "right", "data-name": v.name },
        v.skip?.(d) ? "–" : write(v.value(d)))))));
  }

  svg.addEventListener("pointermove", (e) => {
    const box = svg.getBoundingClientRect();
    const px = ((e.clientX - box.left) / box.width) * W;
    const i = Math.floor((px - LEFT) / wide) - (span - data.length);
    point(i >= 0 && i < data.length ? i : -1);
  });
  svg.addEventListener("pointerleave", () => point(-1));
  svg.addEventListener("blur", () => point(-1));
  svg.addEventListener("keydown", (e) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (!step || data.length === 0) return;
    e.preventDefault();
    point(Math.min(data.length - 1, Math.max(0, (at < 0 ? data.length : at) + step)));
    text(words, `${when.textContent}: ${current.map((v, n) => `${v.name} ${values[n].textContent}`).join(", ")}`);
  });
  asTable.addEventListener("toggle", () => asTable.open && fillTable());
  drawLegend();
  draw();
  sized.observe(svg);
  return {
    root,
    stop: () => sized.disconnect(),
    // set shows the last so many seconds.
    set(seconds, next, spanned = span) {
      span = spanned;
      wide = (W - LEFT) / span;
      if (next && next.map((v) => v.name).join() !== current.map((v) => v.name).join()) {
        current = next;
        put(asTable.querySelector("thead tr"), h("th", { scope: "col" }, "Second"),
          current.map((v) => h("th", { scope: "col", class: "right" }, v.name)));
        drawLegend();
      } else if (next) {
        current = next;
      }
      data = seconds.slice(-span);
      draw();
    },
  };
}

// spark is a small line without axes.
export function spark(tone) {
  const path = s("path", { class: `stroke-${tone} line` });
  const svg = s("svg", { viewBox: "0 0 120 28", class: "spark", "aria-hidden": "true", preserveAspectRatio: "none" },
    path);
  return {
    root: svg,
    set(values) {
      const top = Math.max(1e-9, ...values);
      const step = 120 / Math.max(1, values.length - 1);
      path.setAttribute("d", values.map((v,
        i) => `${i ? "L" : "M"}${(i * step).toFixed(1)} ${(26 - (24 * v) / top).toFixed(1)}`).join(""));
    },
  };
}
