// Elements without markup: text can never become part of the page's structure.

const NS = "http://www.w3.org/2000/svg";

function fill(el, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) el.addEventListener(name.slice(2), value);
    else if (name === "class") el.setAttribute("class", value);
    else if (name === "value") el.value = value;
    else el.setAttribute(name, value === true ? "" : String(value));
  }
  add(el, children);
  return el;
}

// plain marks what would hide text or turn its order around: it may come from a sink or from another agent.
const plain = (value) => String(value).replace(/[^\P{Cc}\n\t]|\p{Cf}/gu, "\uFFFD");

function add(el, children) {
  for (const child of children) {
    if (child === undefined || child === null || child === false || child === "") continue;
    if (Array.isArray(child)) add(el, child);
    else el.append(child instanceof Node ? child : document.createTextNode(plain(child)));
  }
}

// h makes an HTML element, s an SVG one.
export const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);
export const s = (tag, props, ...children) => fill(document.createElementNS(NS, tag), props, children);

// put replaces what is in an element.
export function put(el, ...children) {
  el.replaceChildren();
  add(el, children);
  return el;
}

// text writes text where it differs: an element that stays the same is not announced and not laid out again.
export function text(el, value) {
  const str = plain(value);
  if (el.textContent !== str) el.textContent = str;
}

export function attr(el, name, value) {
  if (value === null || value === undefined) {
    if (el.hasAttribute(name)) el.removeAttribute(name);
  } else if (el.getAttribute(name) !== String(value)) {
    el.setAttribute(name, String(value));
  }
}

let ids = 0;
export const uid = (name) => `${name}-${++ids}`;
