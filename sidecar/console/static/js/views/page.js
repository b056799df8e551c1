import { h, put } from "../dom.js";
import { icon } from "../icons.js";

// page is a view's heading with space for its tools.
export function page(title, intro, ...tools) {
  const heading = h("h1", { tabindex: -1 }, title);
  const row = h("div", { class: "row" }, heading, tools.length > 0 ? h("div", { class: "tools" }, tools) : null);
  const head = h("div", { class: "page-head" }, row, intro ? h("p", {}, intro) : null);
  const root = h("div", { class: "fade" }, head);
  return { root, head, heading };
}

// choices is a row of buttons of which one is chosen: [[value, word]].
export function choices(label, values, chosen, changed) {
  let now = chosen;
  const root = h("div", { class: "choices", role: "group", "aria-label": label }, values.map(([value, word]) =>
    h("button", { class: "button small", type: "button", "aria-pressed": String(value === now), onclick: (e) => {
      now = value;
      for (const b of root.children) b.setAttribute("aria-pressed", String(b === e.currentTarget));
      changed();
    } }, word)));
  return { root, value: () => now };
}

export const notice = (message, kind = "") => h("p", { class: `notice ${kind}` }, icon("residue"),
  h("span", {}, message));

// trouble keeps a place for what went wrong, and empties it when it is over.
export function trouble() {
  const root = h("div", { role: "status" });
  let said = "";
  return {
    root,
    set(cause) {
      const message = cause ? cause.message : "";
      if (message === said) return;
      said = message;
      put(root, message ? notice(message) : null);
    },
  };
}
