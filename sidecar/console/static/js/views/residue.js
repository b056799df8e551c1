import * as api from "../api.js";
import { h, put } from "../dom.js";
import { date, plural } from "../format.js";
import { agentLink, list as listOf, scopeLink, txLink } from "../links.js";
import { say } from "../say.js";
import { poll } from "../store.js";
import { chip } from "../states.js";
import { nothingHere } from "../table.js";
import { notice, page, trouble } from "./page.js";

// residueView lists what could not be made clean, and lets an operator try again or accept.
export function residueView() {
  const state = h("select", {}, ["open", "accepted", "resolved", "all"].map((x) => h("option", { value: x }, x)));
  const { root } = page("Residue",
    "Effects that could not be made clean, or whose outcome is unknown. Each stays here until a later try makes it " +
      "clean or an operator accepts it.",
    h("label", { class: "field inline" }, h("span", {}, "Show"), state));
  const problem = trouble();
  const body = h("div", { class: "stack" });
  root.append(problem.root, body);
  let list = null;
  let sign = "";
  const draw = () => {
    if (!list) return;
    const now = `${state.value}|${JSON.stringify(list)}`;
    if (now === sign) return;
    sign = now;
    const items = list.items.filter((r) => state.value === "all" || r.state === state.value);
    put(body, list.actions ? null : notice(`Retry and accept are not possible from this console: ${list.no_actions}.`,
      "calm"),
      items.length === 0 ? h("div", { class: "card" }, nothingHere({ icon: "committed", title: state.value === "open"
        ? "Nothing is left behind" : "Nothing is in this state",
        text: "Effects that leaked, have an unknown outcome or were not sent are listed here." }))
        : items.slice(0, 300).map((r) => card(r, list, () => asking.now())),
      list.truncated || items.length > 300 ? h("p", { class: "sub" }, "There are more; hence residue ls shows them.")
        : null);
  };
  state.addEventListener("change", draw);
  const asking = poll(4000, api.residue, (answer) => {
    problem.set(null);
    list = answer;
    draw();
  }, problem.set);
  return { root, title: "Residue", stop: asking.stop };
}

function card(r, list, done) {
  const open = r.state === "open";
  const why = open ? (list.actions ? null : list.no_actions) : `it is ${r.state}`;
  const button = (name, kind, act) => h("button", { class: `button small ${kind}`, type: "button",
    disabled: why !== null, title: why, onclick: act,
    "aria-label": `${name}: ${r.tool}, call ${r.index} of ${r.tx}` }, name);
  return h("article", { class: "card residue", "aria-label": `${r.tool}, call ${r.index} of ${r.tx}` },
    h("header", {}, chip(r.call === "not_sent" ? r.call : r.result), h("h2", {}, r.tool), txLink(r.tx),
      h("span", { class: "sub" }, `call ${r.index} · agent `, agentLink(r.agent)),
      h("span", { class: "tools" }, open ? [button("Try again…", "", () => retryDialog(r, done)),
        button("Accept…", "", () => acceptDialog(r, done))] : chip(r.state))),
    h("div", { class: "body" }, h("p", {}, r.detail ?? ""), h("dl", { class: "facts" },
      fact("Moves", listOf(r.scopes ?? [], (x) => scopeLink(x))),
        fact("Class", r.class.replaceAll("_", " ")),
      fact("Key", r.key ? h("code", {}, r.key) : "none: the sink takes no key"), fact("Tries", String(r.tries)),
        fact("Written", date(r.at_ms)), r.note ? fact("Note", r.note) : null,
      r.code ? fact("Code", h("code", {}, r.code)) : null,
      r.args ? fact("Arguments", h("code", {}, JSON.stringify(r.args))) : null)));
}

const fact = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));

function ask(title, button, content, act, done) {
  const error = h("p", { role: "alert", class: "notice bad", hidden: true });
  const go = h("button", { class: "button primary", type: "submit" }, button);
  const el = h("dialog", { "aria-labelledby": "dialog-title", onclose: () => el.remove() },
    h("form", { onsubmit: async (e) => {
    e.preventDefault();
    go.disabled = true;
    try {
      say(await act());
      el.close();
      done();
    } catch (cause) {
      put(error, cause.message);
      error.hidden = false;
    } finally {
      go.disabled = false;
    }
  } }, h("h2", { id: "dialog-title" }, title), content, error,
  h("div", { class: "row" }, h("button", { class: "button", type: "button", onclick: () => el.close() }, "Cancel"),
    go)));
  document.body.append(el);
  el.showModal();
}

function acceptDialog(r, done) {
  const note = h("textarea", { rows: 3, required: true, maxlength: 512,
    placeholder: "Looked at the ledger: the payment is there once. M." });
  ask(`Accept ${r.tool} as it is`, "Accept", [h("p", { class: "sub" },
    "No call is made. The residue leaves the list of open ones."),
    h("label", { class: "field" }, h("span", {}, "Who accepts it, and why"), note)],
  async () => {
    await api.acceptResidue(r.tx, r.index, note.value.trim());
    return `${r.tool} is accepted.`;
  }, done);
}

function retryDialog(r, done) {
  const force = h("input", { type: "checkbox", required: true });
  const keyed = Boolean(r.key);
  const today = h("input", { type: "checkbox", required: true });
  ask(`Try ${r.tool} again`, "Try again", [h("p", { class: "sub" }, keyed
    ? "The sink takes a key: if it has happened already, it does not happen twice."
    : "The sink takes no key: if it has happened already, it happens a second time."),
  keyed ? null : h("label", { class: "check" }, force, h("span", {}, "I have checked the sink: it has not happened.")),
  r.code !== "changed_tool" ? null : h("label", { class: "check" }, today,
    h("span", {}, "The tool's declaration has changed. Use the current declaration."))],
  async () => {
    const now = await api.retryResidue(r.tx, r.index, { force: force.checked, changed_tool: today.checked });
    return `${r.tool} is ${now.result} now, after ${plural(now.tries, "try", "tries")}.`;
  }, done);
}
