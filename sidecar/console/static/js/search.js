import * as api from "./api.js";
import { attr, h, put, uid } from "./dom.js";
import { plural } from "./format.js";
import { icon } from "./icons.js";
import { hrefs } from "./links.js";
import { say } from "./say.js";
import { chip } from "./states.js";

const WAIT_MS = 160;

const hrefOf = { ...hrefs, transaction: hrefs.tx, decision: hrefs.seq };

// searchBox finds transactions, agents, scopes, reasons and seqs while one types: a combobox with a list.
export function searchBox() {
  const listID = uid("hits");
  const narrow = matchMedia("(width < 600px)").matches;
  const list = h("ul", { class: "hits fade", id: listID, role: "listbox", "aria-label": "What was found",
    hidden: true });
  const input = h("input", { type: "text", id: "search",
    placeholder: narrow ? "Find" : "Find a transaction, agent, scope, reason or seq", role: "combobox",
    "aria-label": "Search", "aria-expanded": "false", "aria-controls": listID, "aria-autocomplete": "list",
      autocomplete: "off", spellcheck: "false", maxlength: 200 });
  const root = h("search", { class: "search" }, icon("search"), input, h("kbd", { "aria-hidden": "true" }, "/"),
    list);
  let hits = [];
  let at = -1;
  let timer = 0;
  let asking = null;

  function close() {
    list.hidden = true;
    at = -1;
    attr(input, "aria-expanded", "false");
    attr(input, "aria-activedescendant", null);
  }

  function select(i) {
    at = i;
    [...list.children].forEach((li, n) => attr(li, "aria-selected", n === at ? "true" : "false"));
    attr(input, "aria-activedescendant", at >= 0 ? list.children[at].id : null);
    if (at >= 0) list.children[at].scrollIntoView({ block: "nearest" });
  }

  function go(i) {
    if (!hits[i]) return;
    location.hash = hrefOf[hits[i].kind](hits[i].id);
    input.value = "";
    close();
  }

  function show(found) {
    hits = found;
    put(list, found.length === 0
      ? h("li", { class: "none", role: "option", "aria-disabled": "true" },
        "Nothing is known under this name. A transaction's whole id also finds older ones.")
      : found.map((x, i) => h("li", { role: "option", id: `${listID}-${i}`, "aria-selected": "false",
        onpointerdown: (e) => {
        e.preventDefault();
        go(i);
      } }, h("span", { class: "what" }, x.kind), h("span", { class: "mono" }, x.id),
        h("span", { class: "note" }, x.note ?? ""), x.state ? chip(x.state) : null)));
    list.hidden = false;
    attr(input, "aria-expanded", "true");
    select(found.length > 0 ? 0 : -1);
    say(`${plural(found.length, "result")}`);
  }

  async function ask() {
    const q = input.value.trim();
    asking?.abort();
    if (q === "") return close();
    asking = new AbortController();
    try {
      return show(await api.search(q, asking.signal));
    } catch (cause) {
      if (cause.name === "AbortError") return null;
      hits = [];
      put(list, h("li", { class: "none" }, cause.message));
      list.hidden = false;
      return null;
    }
  }

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, WAIT_MS);
  });
  input.addEventListener("keydown", (e) => {
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    if (steps[e.key] && hits.length > 0 && !list.hidden) {
      e.preventDefault();
      select((at + steps[e.key] + hits.length) % hits.length);
    } else if (e.key === "Enter" && !list.hidden) {
      e.preventDefault();
      go(Math.max(0, at));
    } else if (e.key === "Escape") {
      if (list.hidden) input.value = "";
      close();
    }
  });
  input.addEventListener("blur", close);
  document.addEventListener("keydown", (e) => {
    const typing = e.target.closest?.("input, textarea, select, [contenteditable]");
    if (e.key === "/" && !typing && !e.ctrlKey && !e.metaKey && !e.altKey && document.body.contains(input)) {
      e.preventDefault();
      input.focus();
    }
  });
  return root;
}
