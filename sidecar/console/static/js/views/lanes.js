import * as api from "../api.js";
import { attr, h, put, text } from "../dom.js";
import { int, plural, span } from "../format.js";
import { icon } from "../icons.js";
import { lanes, lanesTable, legend, saysOf } from "../lanes.js";
import { linked } from "../links.js";
import { say } from "../say.js";
import { poll } from "../store.js";
import { nothingHere } from "../table.js";
import { choices, page, trouble } from "./page.js";

// lanesView draws what all agents did, one lane each. It stands still while the reader is in it.
export function lanesView() {
  const choice = choices("Show the last", [10, 30, 120, 300].map((n) => [n, span(n * 1000)]), 30, () => asking.now());
  const pause = h("button", { class: "button", type: "button", "aria-pressed": "false", onclick: () => {
    paused = !paused;
    attr(pause, "aria-pressed", String(paused));
    put(pause, icon(paused ? "play" : "pause"), paused ? "Go on" : "Pause");
    say(paused ? "Paused" : "Going on");
    if (!paused) asking.now();
  } }, icon("pause"), "Pause");
  const { root } = page("Lanes", "What all agents did, one lane each, time from left to right.", choice.root, pause);
  const problem = trouble();
  const canvas = h("div", { class: "lanes-box" });
  const reading = h("p", { class: "reading", "aria-live": "polite" });
  const note = h("p", { class: "sub num" });
  const body = h("div", {});
  const asTable = h("details", {}, h("summary", {}, "As a table"), body);
  root.append(problem.root, h("section", { class: "card", "aria-label": "Lanes of all agents" },
    h("div", { class: "body" }, canvas, reading, note, legend(), asTable)));
  let paused = false;
  let view = null;
  let width = 0;

  const near = () => canvas.contains(document.activeElement) || canvas.matches(":hover");
  const hint = () => text(reading, "Point at a transaction, or move to one with Tab and the arrow keys.");

  function draw() {
    if (!view || width === 0) return;
    if (view.lanes.every((l) => l.bars.length === 0)) {
      put(canvas, nothingHere({ icon: "lanes", title: "No agent was active in this time",
        text: "A transaction has a bar from its begin. Choose a longer time, or wait for the next one." }));
      text(note, "");
      return hint();
    }
    const drawing = lanes(view, width, (b) => put(reading, linked(saysOf(b), { tx: [b.tx, b.by,
      ...b.waits.map((w) => w.tx)], scope: [b.scope, ...b.waits.map((w) => w.scope)] })));
    put(canvas, drawing.svg);
    hint();
    const out = view.left_out;
    const left = [[out.lanes, "agent"], [out.bars + drawing.left, "transaction"], [out.marks, "act"]]
      .filter(([n]) => n > 0).map(([n, what]) => plural(n, what));
    text(note, `${plural(view.lanes.length, "lane")}, ${plural(drawing.drawn, "transaction")}.`
      + (left.length > 0 ? ` Left out, because a drawing is bounded: ${left.join(", ")}.` : " Nothing is left out.")
      + (drawing.outside > 0 ? ` ${int(drawing.outside)} refused by what lies outside: a short arrow.` : ""));
    if (asTable.open) put(body, lanesTable(view));
  }

  const sized = new ResizeObserver(([entry]) => {
    const now = Math.floor(entry.contentRect.width);
    if (now === width || now === 0) return;
    width = now;
    draw();
  });
  sized.observe(canvas);
  asTable.addEventListener("toggle", () => asTable.open && view && put(body, lanesTable(view)));
  const asking = poll(1000, (signal) => api.lanes(choice.value(), signal), (answer) => {
    problem.set(null);
    if (view && (paused || near() || body.contains(document.activeElement))) return; // it is being read
    view = answer;
    draw();
  }, problem.set);
  hint();
  return { root, title: "Lanes", stop: () => {
    asking.stop();
    sized.disconnect();
  } };
}
