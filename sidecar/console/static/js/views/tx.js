import * as api from "../api.js";
import { attr, h, put } from "../dom.js";
import { int, plural } from "../format.js";
import { icon } from "../icons.js";
import { say } from "../say.js";
import { poll, store } from "../store.js";
import { page, trouble } from "./page.js";
import { reportBody } from "./report.js";

// txView shows one transaction, and keeps up with it while it is not final.
export function txView(ctx, { rest }) {
  const id = rest[0] ?? "";
  const exporter = h("button", { class: "button", type: "button", onclick: () => exportDialog(id) }, icon("down"),
    "Export");
  const content = h("button", { class: "button", type: "button", "aria-pressed": "false", onclick: () => {
    withContent = !withContent;
    attr(content, "aria-pressed", String(withContent));
    asking.now();
  } }, "Arguments and answers");
  const undo = h("button", { class: "button", type: "button", hidden: true,
    onclick: () => retractDialog(ctx, id, () => asking.now()) }, icon("retracting"), "Retract…");
  const { root, heading } = page(h("span", {}, h("span", { class: "faint kicker" }, "Transaction "),
    h("code", {}, id)), null, content, undo, exporter);
  heading.setAttribute("aria-label", `Transaction ${id}`);
  const problem = trouble();
  const body = h("div", {}, h("p", { class: "muted" }, "Looking it up…"));
  root.append(problem.root, body);
  let withContent = false;
  let sign = "";
  let state = "";
  let final = false;
  const asking = poll(() => (final ? 10_000 : 1500), (signal) => api.tx(id, withContent, signal), (report) => {
    problem.set(null);
    final = !report.live;
    const { made_ms: made, ...what } = report;
    const now = JSON.stringify(what);
    if (now === sign) return;
    sign = now;
    if (state && state !== report.state) say(`${id} is ${report.state} now.`);
    state = report.state;
    undo.hidden = !(report.state === "committed");
    content.hidden = report.effects.length === 0;
    redraw(body, reportBody(report, { now: made,
      say: (call, yes) => wordDialog(ctx, id, call, yes, report.paragraph, () => asking.now()) }));
  }, (cause) => {
    if (sign === "") put(body);
    problem.set(cause);
  });
  return { root, title: id, stop: asking.stop };
}

// redraw replaces a view and leaves the focus where it was, as far as that is still there.
function redraw(body, fresh) {
  const focused = body.contains(document.activeElement) ? document.activeElement : null;
  const all = focused ? [...body.querySelectorAll("a[href], button, [tabindex], summary")] : [];
  const at = all.indexOf(focused);
  const opened = [...body.querySelectorAll("details")].map((d) => d.open);
  put(body, fresh);
  [...body.querySelectorAll("details")].forEach((d, i) => {
    d.open = opened[i] ?? false;
  });
  if (at >= 0) [...body.querySelectorAll("a[href], button, [tabindex], summary")][at]?.focus({ preventScroll: true });
}

function dialog(title, ...content) {
  const el = h("dialog", { "aria-labelledby": "dialog-title", onclose: () => el.remove() },
    h("form", { method: "dialog" },
    h("h2", { id: "dialog-title" }, title), content));
  document.body.append(el);
  el.showModal();
  return el;
}

function exportDialog(id) {
  const box = h("input", { type: "checkbox" });
  const el = dialog("Export this transaction", h("p", { class: "sub" },
    "A JSON file with its steps, decisions, causes and tool calls. Open it in any console under ",
    h("em", {}, "Open a file"), ", without a server behind it."),
  h("label", { class: "check" }, box, h("span", {},
    "Include arguments and answers of its tool calls, which may be confidential.")),
  h("div", { class: "row" }, h("button", { class: "button", value: "no" }, "Cancel"),
    h("button", { class: "button primary", type: "button", onclick: () => {
    const link = h("a", { href: api.exportPath(id, box.checked), download: "" });
    document.body.append(link);
    link.click();
    link.remove();
    el.close();
    say("The file is being saved.");
  } }, icon("down"), "Save the file")));
}

let approver = ""; // kept until the page is closed, nowhere else

// wordDialog asks who says yes or no to a call, and shows what it is about.
function wordDialog(ctx, id, call, yes, standing, done) {
  const name = yes ? "Approve" : "Deny";
  const token = h("input", { type: "password", autocomplete: "off", required: true, value: approver });
  const error = h("p", { role: "alert", class: "notice bad", hidden: true });
  const possible = Boolean(ctx.about?.actions);
  const go = h("button", { class: `button ${yes ? "primary" : "danger"}`, type: "submit", disabled: !possible }, name);
  const el = h("dialog", { "aria-labelledby": "dialog-title", onclose: () => el.remove() },
    h("form", { onsubmit: async (e) => {
    e.preventDefault();
    go.disabled = true;
    try {
      const d = await api.word(id, call.index, yes, token.value.trim(), call.args_sha256);
      approver = token.value.trim();
      say(`${call.tool} is ${yes ? "approved" : "denied"}; ${id} is ${d.state}.`);
      el.close();
      done();
    } catch (cause) {
      put(error, cause.message);
      error.hidden = false;
      go.disabled = false;
      done();
    }
  } }, h("h2", { id: "dialog-title" }, `${name} ${call.tool}`), h("p", { class: "sub" }, standing),
  call.args ? h("pre", { tabindex: 0 }, call.args) : h("p", { class: "notice" }, call.detail),
  h("p", { class: "sub" }, yes ? "It leaves when all that its transaction waits for is over."
    : "Its transaction is aborted at once, and nothing of it leaves."),
  h("label", { class: "field" }, h("span", {}, "Your token as an approver"), token),
  possible ? null : h("p", { class: "sub" }, `Not possible from this console: ${ctx.about?.no_actions}.`), error,
  h("div", { class: "row" }, h("button", { class: "button", type: "button", onclick: () => el.close() }, "Cancel"),
    go)));
  document.body.append(el);
  el.showModal();
}

async function retractDialog(ctx, id, done) {
  const list = h("div", { class: "cone" }, h("p", { class: "muted" }, "Loading what would be undone…"));
  const why = h("input", { type: "text", maxlength: 200, placeholder: "for the sidecar's log" });
  const error = h("p", { role: "alert", class: "notice bad", hidden: true });
  const go = h("button", { class: "button danger", type: "button", disabled: true, onclick: async () => {
    go.disabled = true;
    try {
      const r = await api.retract(id, why.value);
      say(`Retracting ${id}: ${plural(r.total, "transaction")} will be undone.`);
      el.close();
      done();
    } catch (cause) {
      put(error, cause.message);
      error.hidden = false;
      go.disabled = false;
    }
  } }, "Retract");
  const reasonWhyNot = ctx.about?.actions ? null : h("p", { class: "sub" },
    `Not possible from this console: ${ctx.about?.no_actions}.`);
  const el = dialog(`Retract ${id}`, h("p", { class: "sub" },
    "It is undone together with every transaction that read what it wrote, or wrote over it. What has left for " +
      "good becomes residue."),
    list, h("label", { class: "field" }, h("span", {}, "Reason"), why), reasonWhyNot, error,
    h("div", { class: "row" }, h("button", { class: "button", value: "no" }, "Cancel"), go));
  try {
    const cone = await api.cone(id);
    put(list, h("p", {}, h("span", { class: "strong" }, plural(cone.total, "transaction")),
      ` would be undone, as of seq ${int(cone.through)}:`),
      h("ul", {}, cone.cone.slice(0, 50).map((m) => h("li", {}, h("code", {}, m.tx),
        h("span", { class: "muted" },
        ` agent ${m.agent}, seq ${int(m.seq)}${m.why ? `, ${m.why.replaceAll("_", " ")} ${m.of}` : ""}`)))));
    go.disabled = !ctx.about?.actions;
  } catch (cause) {
    put(list, h("p", { class: "notice" }, cause.message));
  }
}

export const keep = store;
