import { h, put, s, text } from "../dom.js";
import { age, int, span } from "../format.js";
import { agentLink } from "../links.js";
import { store } from "../store.js";
import { table } from "../table.js";
import { icon } from "../icons.js";
import { page } from "./page.js";

// agentsView lists agents and the sidecars beside them.
export function agentsView(ctx) {
  const { root } = page("Agents",
    "Each agent has one sidecar. Its lease must be renewed, or its open work is aborted; its lag says how far " +
      "what it still works on lies behind the newest decision.");
  let lease = 0;
  const meter = (a) => {
    const part = lease > 0 ? Math.min(1, a.lease_left / lease) : 1;
    const level = part < 0.2 ? " low" : part < 0.45 ? " mid" : "";
    return [h("span", { class: `meter${level}`, "aria-hidden": "true" },
      s("svg", { viewBox: "0 0 100 6", preserveAspectRatio: "none" }, s("rect", { width: 100 * part, height: 6 }))),
      h("span", { class: "num" }, `≈ ${span(a.lease_left * 250)}`)];
  };
  const list = table({
    label: "Agents and sidecars", least: 1020, tall: false, height: "auto", key: (a) => a.agent,
    columns: [
      { name: "Agent", width: "18%", broad: true, sign: (a) => a.agent, draw: (c, a) => put(c, agentLink(a.agent)) },
      { name: "Sidecar", width: "150px", sign: (a) => `${a.live}${a.ended ?? ""}`,
        draw: (c, a) => put(c, a.live ? h("span", { class: "chip tone-good" }, icon("committed"), "alive")
        : h("span", { class: "chip tone-wait" }, icon("gone"), a.ended ? `ended at ${int(a.ended)}` : "not seen")) },
      { name: "Lease left", width: "190px", sign: (a) => `${a.live}${a.lease_left}/${lease}`,
        draw: (c, a) => put(c, a.live ? meter(a) : "–") },
      { name: "Lag in seqs", right: true, sign: (a) => (a.live ? a.lag : "–"),
        draw: (c, a) => text(c, a.live ? int(a.lag) : "–") },
      { name: "Watermark", right: true, sign: (a) => a.watermark ?? 0,
        draw: (c, a) => text(c, a.watermark ? int(a.watermark) : "–") },
      { name: "Under way", right: true, sign: (a) => a.open, draw: (c, a) => text(c, a.open ? int(a.open) : "–") },
      { name: "Commits", right: true, sign: (a) => a.commits, draw: (c, a) => text(c, int(a.commits)) },
      { name: "Aborts", right: true, sign: (a) => a.aborts, draw: (c, a) => text(c, int(a.aborts)) },
      { name: "Last decision", width: "130px", right: true, sign: (a) => (a.last_ms ? age(store.now() - a.last_ms)
        : ""), draw: (c, a) => text(c, a.last_ms ? `${age(store.now() - a.last_ms)} ago` : "earlier") },
    ],
    empty: { icon: "agents", title: "No agent has joined",
      text: "An agent is listed once its sidecar has joined the workspace. Start one:",
      code: "hence sidecar --agent agent-2" },
  });
  const heads = h("p", { class: "sub num" });
  root.append(h("div", { class: "card" }, h("header", {}, h("h2", {}, "Agents and their sidecars"), heads),
    list.root),
    h("p", { class: "sub below" },
      "Commits and aborts are counted since the console began to look. Times are ticks of the log, about 250 ms " +
        "each, and longer while nothing is pending."));
  const take = (live) => {
    lease = live.lease_ticks;
    list.set(live.agents);
    const alive = live.agents.filter((a) => a.live).length;
    text(heads, [`${alive} alive`, `newest decision ${int(live.seq)}`, `floor ${int(live.floor)}`,
      `tick ${int(live.tick)}`].join(" · "));
  };
  if (ctx.live) take(ctx.live);
  else list.set([]);
  return { root, title: "Agents", live: take };
}
