import { h, put } from "./dom.js";
import { icon } from "./icons.js";
import { say } from "./say.js";

const order = ["auto", "light", "dark"];
const pictures = { auto: "auto", light: "sun", dark: "moon" };
const words = { auto: "as the system has it", light: "light", dark: "dark" };

function current() {
  const chosen = document.documentElement.dataset.theme;
  return chosen === "dark" || chosen === "light" ? chosen : "auto";
}

function choose(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    if (theme === "auto") localStorage.removeItem("hence.theme");
    else localStorage.setItem("hence.theme", theme);
  } catch {
    return; // it holds for this page, then
  }
}

// themeSwitch goes through the colours: the system's, light, dark.
export function themeSwitch() {
  const draw = () => {
    const name = `Colours: ${words[current()]}`;
    put(button, icon(pictures[current()]), h("span", { class: "hidden-text" }, `${name}. Change.`));
    button.title = name;
  };
  const button = h("button", { class: "button quiet", type: "button", id: "theme", onclick: () => {
    choose(order[(order.indexOf(current()) + 1) % order.length]);
    draw();
    say(`Colours: ${words[current()]}`);
  } });
  draw();
  return button;
}
