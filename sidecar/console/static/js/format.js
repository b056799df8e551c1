// Numbers and times as people read them.

export const int = (n) => Math.round(n ?? 0).toLocaleString("en");

export function rate(n) {
  if (n >= 100) return int(n);
  return n >= 10 || n === 0 ? String(Math.round(n)) : n.toFixed(1);
}

// span writes milliseconds: 4 ms, 1.2 s, 3 min 5 s, 2 h 4 min.
export function span(ms) {
  if (!Number.isFinite(ms)) return "–";
  const v = Math.max(0, ms);
  if (v < 1000) return `${Math.round(v)} ms`;
  if (v < 10_000) return `${(v / 1000).toFixed(1)} s`;
  const sec = Math.round(v / 1000);
  if (sec < 60) return `${sec} s`;
  if (sec < 3600) return `${Math.floor(sec / 60)} min ${sec % 60} s`;
  if (sec < 86400) return `${Math.floor(sec / 3600)} h ${Math.floor((sec % 3600) / 60)} min`;
  return `${Math.floor(sec / 86400)} d ${Math.floor((sec % 86400) / 3600)} h`;
}

// age is a span in whole seconds, so that a list of them does not flicker.
export function age(ms) {
  if (!Number.isFinite(ms)) return "–";
  return ms < 1000 ? "< 1 s" : span(Math.floor(ms / 1000) * 1000).replace(".0 s", " s");
}

export const ms = (v) => (v >= 100 ? `${Math.round(v)} ms` : v >= 10 ? `${v.toFixed(0)} ms` : `${v.toFixed(1)} ms`);

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
