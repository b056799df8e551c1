// What a screen reader is told: politely, and not more often than one can listen.

const PAUSE_MS = 3000;
let last = 0;
let waiting = null;
let timer = 0;

export function say(message) {
  waiting = message; // what was not said yet is out of date
  if (timer) return;
  const rest = Math.max(0, last + PAUSE_MS - Date.now());
  timer = setTimeout(() => {
    timer = 0;
    last = Date.now();
    const el = document.getElementById("say");
    el.textContent = "";
    requestAnimationFrame(() => {
      el.textContent = waiting;
    });
  }, rest);
}
