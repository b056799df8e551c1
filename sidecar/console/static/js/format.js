// Numbers and times as people read them.

export const int = (n) => Math.round(n ?? 0).toLocaleString("en");

export function rate(n) {
  if (n >= 10 || n === 0) return int(n);
  return n < 0.05 ? "< 0.1" : n.toFixed(1);
}

// span writes milliseconds: 4 ms, 1.2 s, 5 s, 3 min 5 s, 2 h 4 min. Every duration of the page is written by it.
export function span(ms) {
  if (!Number.isFinite(ms)) return "–";
  const v = Math.round(Math.max(0, ms));
  if (v === 0 && ms > 0) return "< 1 ms";
  if (v < 1000) return `${v} ms`;
  const tenths = Math.round(v / 100);
  if (tenths < 100) return `${tenths / 10} s`;
  const sec = Math.round(v / 1000);
  if (sec < 60) return `${sec} s`;
  const [big, small, unit, part] = sec < 3600 ? [60, 1, "min", "s"] : sec < 86400 ? [3600, 60, "h", "min"]
    : [86400, 3600, "d", "h"];
  const rest = Math.floor((sec % big) / small);
  return `${Math.floor(sec / big)} ${unit}${rest > 0 ? ` ${rest} ${part}` : ""}`;
}

// age is a span in whole seconds, so that a list of them does not flicker.
export function age(ms) {
  if (!Number.isFinite(ms)) return "–";
  return ms < 1000 ? "< 1 s" : span(Math.floor(ms / 1000) * 1000);
}

// count writes how many there are where there is little space: 980, 1.2k, 14k, 3.1M.
export function count(v) {
  if (v < 1000) return v >= 10 || Number.isInteger(v) ? String(Math.round(v)) : v.toFixed(1);
  for (const [unit, letter] of [[1e3, "k"], [1e6, "M"], [1e9, "G"]]) {
    const n = v / unit;
    if (n < 9.95) return `${Number(n.toFixed(1))}${letter}`;
    if (n < 999.5) return `${Math.round(n)}${letter}`;
  }
  return v.toExponential(1);
}

export const percent = (part, all) => (all === 0 ? "–" : part === 0 ? "0 %"
  : part / all < 0.001 ? "< 0.1 %" : `${Number(((100 * part) / all).toFixed(1))} %`);

const two = (n) => String(n).padStart(2, "0");

// clock is a time of the day, with tenths where asked.
export function clock(atMs, fine = false) {
  if (!atMs) return "–";
  const t = new Date(atMs);
  const base = `${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`;
  return fine ? `${base}.${String(t.getMilliseconds()).padStart(3, "0")}` : base;
}

export function date(atMs) {
  if (!atMs) return "–";
  const t = new Date(atMs);
  return `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())} ${clock(atMs)}`;
}

export function bytes(n) {
  if (n < 1024) return `${n} B`;
  return n < 1 << 20 ? `${(n / 1024).toFixed(1)} KiB` : `${(n / (1 << 20)).toFixed(1)} MiB`;
}

// middle shortens what is long in its middle: ids differ at both ends.
export function middle(text, most = 28) {
  if (text.length <= most) return text;
  const left = Math.ceil((most - 1) / 2);
  return `${text.slice(0, left)}…${text.slice(text.length - (most - 1 - left))}`;
}

export const plural = (n, one, many = `${one}s`) => `${int(n)} ${n === 1 ? one : many}`;
