import { s } from "./dom.js";

// Shapes on a field of 16 by 16. Every state has a shape of its own, so that none is told by colour alone.
const shapes = {
  overview: ["M2.5 13.5v-5M6.2 13.5v-9M9.8 13.5V7M13.5 13.5v-11"],
  decisions: ["M2.5 4h11M2.5 8h11M2.5 12h7"],
  live: ["M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM8 5v3.2l2.2 1.5"],
  gate: ["M2.5 13.5v-9l5.5-2 5.5 2v9M5.5 13.5V8h5v5.5"],
  residue: ["M8 2.2l6.3 11.3H1.7zM8 6.5v3.2M8 11.6v.2"],
  agents: ["M5.6 7.4a2.4 2.4 0 1 0 0-4.8 2.4 2.4 0 0 0 0 4.8zM1.6 13.4c.3-2.6 1.8-4 4-4s3.7 1.4 4 4" +
    "M11 3.3a2 2 0 0 1 0 3.8M12 9.8c1.5.4 2.3 1.7 2.5 3.6"],
  scopes: ["M2.5 3.5h4v3h-4zM9.5 9.5h4v3h-4zM9.5 3.5h4v3h-4zM6.5 5h3M8 5v6h1.5"],
  lanes: ["M2 4h6M5.5 8h8.5M3.5 12h5"],
  contended: ["M2 8h4.6M4.6 5.8L6.8 8l-2.2 2.2M14 8H9.4M11.4 5.8L9.2 8l2.2 2.2M8 2.5v2.2M8 11.3v2.2"],
  file: ["M4 1.8h5.2L12.5 5v9.2h-8.5zM9 2v3.3h3.3"],
  search: ["M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.3 10.3l3.2 3.2"],
  sun: ["M8 10.8a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.6zM8 1.5v1.5M8 13v1.5M1.5 8h1.5M13 8h1.5M3.4 3.4l1 1" +
    "M11.6 11.6l1 1M3.4 12.6l1-1M11.6 4.4l1-1"],
  moon: ["M13.3 9.6A5.6 5.6 0 0 1 6.4 2.7a5.6 5.6 0 1 0 6.9 6.9z"],
  auto: ["M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11", "M8 4v8"],
  out: ["M6.5 2.5h-4v11h4M10.5 5l3 3-3 3M13.3 8H6"],
  down: ["M8 2.5v8M4.5 7.5L8 11l3.5-3.5M2.8 13.5h10.4"],
  pause: ["M5.5 3.5v9M10.5 3.5v9"],
  play: ["M4.8 3l8 5-8 5z"],
  back: ["M9.5 3.5L5 8l4.5 4.5"],
  empty: ["M2.5 9.5l2-6h7l2 6v4h-11zM2.5 9.5h3.3l.8 1.5h2.8l.8-1.5h3.3"],
  open: ["M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3z"],
  waiting: ["M4 2.5h8M4 13.5h8M5 2.5c0 3 3 3.5 3 5.5s-3 2.5-3 5.5M11 2.5c0 3-3 3.5-3 5.5s3 2.5 3 5.5"],
  sealed: ["M8 2.3L13.7 8 8 13.7 2.3 8z"],
  committed: ["M3 8.5l3.4 3.5L13 4.5"],
  aborted: ["M3.8 3.8l8.4 8.4M12.2 3.8l-8.4 8.4"],
  settling: ["M12.8 6.5A5 5 0 0 0 4 5L2.8 6.5M3.2 9.5A5 5 0 0 0 12 11l1.2-1.5M2.8 3.3v3.2H6M13.2 12.7V9.5H10"],
  orphan: ["M6 6a2.1 2.1 0 1 1 2.9 2C8.2 8.4 8 9 8 9.8M8 12.3v.2"],
  retracting: ["M13 11.5c0-3-2-4.5-5-4.5H3.5M6.5 4l-3 3 3 3"],
  gone: ["M4 8h8"],
  held: ["M4 7.5h8v6H4zM5.7 7.5V5.2a2.3 2.3 0 0 1 4.6 0v2.3"],
  released: ["M4 7.5h8v6H4zM5.7 7.5V5.2a2.3 2.3 0 0 1 4.5-.7"],
  read: ["M1.8 8S4 4 8 4s6.2 4 6.2 4S12 12 8 12 1.8 8 1.8 8zM8 9.6a1.6 1.6 0 1 0 0-3.2 1.6 1.6 0 0 0 0 3.2z"],
  write: ["M3 13l.6-2.8L10.8 3a1.3 1.3 0 0 1 1.9 0l.3.3a1.3 1.3 0 0 1 0 1.9L5.8 12.4z"],
  call: ["M9.5 2L4 9h4l-1.5 5L12 7H8z"],
  granted: ["M10 8.5a3 3 0 1 1-2.1-2.9M9.5 6L14 1.8M11.5 4.2l1.8 1.8"],
  note: ["M8 13.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11zM8 7.3v3.5M8 5.2v.1"],
};

export function icon(name, label) {
  const paths = (shapes[name] ?? shapes.note).map((d) => s("path", { d }));
  const props = { class: "icon", viewBox: "0 0 16 16" };
  if (label) return s("svg", { ...props, role: "img", "aria-label": label }, ...paths);
  return s("svg", { ...props, "aria-hidden": "true" }, ...paths);
}

// shape gives the paths alone, for drawings.
export const shape = (name) => (shapes[name] ?? shapes.note).map((d) => s("path", { d }));
