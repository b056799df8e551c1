import * as api from "./api.js";
import { attr, h, put, text } from "./dom.js";
import { count as few, int } from "./format.js";
import { icon } from "./icons.js";
import { say } from "./say.js";
import { searchBox } from "./search.js";
import { poll, store } from "./store.js";
import { themeSwitch } from "./theme.js";
import { agentsView } from "./views/agents.js";
import { anomaliesView } from "./views/anomalies.js";
import { contendedView } from "./views/contended.js";
import { decisionsView } from "./views/decisions.js";
import { fileView } from "./views/file.js";
import { gateView } from "./views/gate.js";
import { lanesView } from "./views/lanes.js";
import { liveView } from "./views/live.js";
import { loginView } from "./views/login.js";
import { overviewView } from "./views/overview.js";
import { residueView } from "./views/residue.js";
import { scopesView } from "./views/scopes.js";
import { txView } from "./views/tx.js";

const places = [
  { path: "", name: "Overview", icon: "overview", view: overviewView },
  { path: "decisions", name: "Decisions", icon: "decisions", view: decisionsView },
  { path: "live", name: "Live transactions", icon: "live", view: liveView },
  { path: "lanes", name: "Lanes", icon: "lanes", view: lanesView },
  { path: "contended", name: "Fought over", icon: "contended", view: contendedView },
  { path: "gate", name: "Gate", icon: "gate", view: gateView },
  { path: "residue", name: "Residue", icon: "residue", view: residueView },
  { path: "anomalies", name: "Anomalies", icon: "contended", view: anomaliesView },
  { path: "agents", name: "Agents", icon: "agents", view: agentsView },
  { path: "scopes", name: "Scopes", icon: "scopes", view: scopesView },
  { path: "file", name: "Open a file", icon: "file", view: fileView, open: true },
];

const ctx = { about: null, live: null, gate: null, residue: null };
let shown = null; // the view: { root, title, stop, update }
let frame = null;
let loggedIn = false;
let refused = ""; // why a printed link did not log in

// parse reads where the page is from its address.
function parse() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  return { name: name ?? "", rest: rest.map(decodeURIComponent), query: new URLSearchParams(query ?? "") };
}

function buildFrame() {
  const links = places.map((p) => {
    const count = h("span", { class: "count", hidden: true });
    const el = h("a", { class: "nav", href: `#/${p.path}` }, icon(p.icon), p.name, count);
    return { ...p, el, count };
  });
  const main = h("main", { class: "main", id: "main", tabindex: -1 });
  const dot = h("span", { class: "link-state", role: "group", "aria-label": "Connection" },
    h("span", { class: "dot", "aria-hidden": "true" }), h("span", {}));
  const foot = h("footer", {});
  const menu = h("button", { class: "button menu", type: "button", "aria-expanded": "false", "aria-controls": "side",
    onclick: () => open(menu.getAttribute("aria-expanded") !== "true") }, icon("decisions"),
    h("span", { class: "hidden-text" }, "Views"));
  const open = (yes) => {
    attr(menu, "aria-expanded", String(yes));
    side.classList.toggle("open", yes);
  };
  const bar = h("header", { class: "bar" }, menu, searchBox(), h("span", { class: "space" }), dot, themeSwitch(),
    h("button", { class: "button quiet", type: "button", title: "Log out", onclick: leave }, icon("out"),
      h("span", { class: "hidden-text" }, "Log out")));
  const side = h("div", { class: "side", id: "side" }, h("a", { class: "brand", href: "#/" },
    h("img", { src: "/icon.svg", alt: "", width: 24, height: 24 }),
    h("span", {}, "Hence ", h("small", {}, "console"))), h("nav", { "aria-label": "Views" },
      h("ul", {}, links.map((l) => h("li", {}, l.el)))), foot);
  return { root: [bar, side, main], main, links, dot, foot, open };
}

// quiet ends every question that is asked again and again.
function quiet() {
  loggedIn = false;
  store.stop();
  counts?.stop();
  residues?.stop();
  shown?.stop?.();
}

async function leave() {
  quiet(); // before: no question of this page is to find the door closed
  await api.logout().catch(() => null);
  location.hash = "#/";
  route();
}

// route shows the view that the address names.
function route() {
  const { name, rest, query } = parse();
  const place = places.find((p) => p.path === name);
  for (const dialog of document.querySelectorAll("dialog")) dialog.close(); // it was about the view before
  if (shown) shown.stop?.();
  const shell = document.getElementById("shell");
  if (!loggedIn && !(place?.open)) {
    frame = null;
    shown = loginView(enter, refused);
    shell.className = "shell alone";
    put(shell, h("main", { id: "main", tabindex: -1 }, shown.root));
    document.title = "Log in · Hence";
    return;
  }
  if (!loggedIn) {
    frame = null;
    shown = place.view(ctx, { rest, query, alone: true });
    shell.className = "shell alone";
    put(shell, h("main", { class: "main", id: "main", tabindex: -1 }, shown.root));
    document.title = `${shown.title} · Hence`;
    return;
  }
  if (!frame) {
    frame = buildFrame();
    shell.className = "shell";
    put(shell, frame.root);
  }
  const view = name === "tx" ? txView : place?.view ?? overviewView;
  shown = view(ctx, { rest, query, refresh: () => counts?.now() });
  put(frame.main, shown.root);
  frame.open(false);
  for (const l of frame.links) attr(l.el, "aria-current", (place ?? (name === "tx" ? null
    : places[0]))?.path === l.path ? "page" : null);
  document.title = `${shown.title} · Hence`;
  window.scrollTo(0, 0);
  if (routed) frame.main.querySelector("h1")?.focus({ preventScroll: true });
  routed = true;
  update();
}
let routed = false;

function count(path, n, level) {
  const link = frame?.links.find((l) => l.path === path);
  if (!link) return;
  link.count.hidden = !n;
  attr(link.count, "class", `count${level && n ? ` ${level}` : ""}`);
  text(link.count, few(n));
}

// update brings the frame and the view up to date; the store calls it once per frame at most.
function update() {
  if (!frame) return;
  const state = store.state !== "open" ? "waiting" : store.troubles.length > 0 ? "trouble" : "open";
  const words = { waiting: "connecting…", trouble: "not everything answers", open: `seq ${int(store.seq)}` }[state];
  if (frame.dot.dataset.state !== state) {
    if (frame.dot.dataset.state) say({ waiting: "The connection is lost; it is tried again.",
      trouble: `Not everything answers: ${store.troubles[0]}`, open: "Connected." }[state]);
    frame.dot.dataset.state = state;
  }
  text(frame.dot.lastChild, words);
  frame.dot.title = store.troubles.join("\n");
  shown?.update?.();
}

let counts = null;
function keepCounts() {
  counts?.stop();
  counts = poll(2000, async (signal) => {
    ctx.live = await api.live(signal);
    return ctx.live;
  }, (live) => {
    const waiting = live.transactions.filter((t) => t.waits?.length > 0).length;
    count("live", live.transactions.length, waiting > 0 ? "note" : "");
    count("gate", live.transactions.reduce((n, t) => n + t.held, 0));
    shown?.live?.(live);
  });
}

let residues = null;
function keepResidue() {
  residues?.stop();
  let before = null;
  residues = poll(6000, (signal) => api.residue(signal), (list) => {
    ctx.residue = list;
    const open = list.items.filter((r) => r.state === "open").length;
    count("residue", open, "alert");
    if (before !== null && open > before) say(`${open} effects could not be made clean.`);
    before = open;
    shown?.residue?.(list);
  });
}

async function enter() {
  if (!(await api.session()).open) return false;
  ctx.about = await api.about();
  loggedIn = true;
  refused = "";
  route();
  put(frame.foot, "Workspace ", h("span", { class: "strong" }, ctx.about.workspace), h("br"), ctx.about.version);
  store.start();
  keepCounts();
  keepResidue();
  return true;
}

api.onUnauthorized(() => {
  if (!loggedIn) return;
  quiet();
  route();
  say("Your login has ended. Log in again.");
});

// invited changes the code of a printed link for a login; the code leaves the address at once.
async function invited() {
  const code = new URLSearchParams(location.hash.slice(1)).get("login");
  if (!code) return;
  history.replaceState(null, "", "#/");
  await api.login({ invitation: code }).catch((cause) => {
    refused = cause.message; // said where there is no login already
  });
}

async function arrive() {
  await invited();
  if (!(await enter().catch(() => false))) route();
}

store.on(update);
window.addEventListener("hashchange", () => (location.hash.startsWith("#login=") ? arrive() : route()));
document.querySelector(".skip").addEventListener("click", (e) => {
  e.preventDefault(); // the address says which view is shown
  const main = document.getElementById("main");
  main.focus();
});
await arrive();
