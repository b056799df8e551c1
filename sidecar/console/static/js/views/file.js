import { h, put } from "../dom.js";
import { date } from "../format.js";
import { icon } from "../icons.js";
import { say } from "../say.js";
import { page, trouble } from "./page.js";
import { back, reportBody } from "./report.js";

const FORMAT = "hence.transaction.v1";
const MOST_BYTES = 16 << 20;

// check says what is wrong with a file; nothing in it is trusted to be there.
export function check(report) {
  if (!report || typeof report !== "object" || Array.isArray(report)) return "it is not an exported transaction";
  if (typeof report.format !== "string"
    || !report.format.startsWith("hence.transaction.")) return "it is not an exported transaction: it has no format " +
      "of one";
  if (report.format !== FORMAT) return `it has the format ${report.format}; this console reads ${FORMAT}`;
  for (const name of ["decisions", "acts", "effects", "residue",
    "missing"]) if (!Array.isArray(report[name])) return `its list ${name} is missing`;
  for (const d of report.decisions) if (!d?.event?.data) return "one of its decisions is no CloudEvent";
  if (report.closure && (!Array.isArray(report.closure.rows)
    || report.closure.rows.length === 0)) return "its graph is empty";
  if (typeof report.tx !== "string"
    || typeof report.paragraph !== "string") return "it does not say which transaction it is";
  return "";
}

// fileView draws an exported transaction. It asks no server anything.
export function fileView(ctx, { alone }) {
  const { root } = page("Open a file",
    "A transaction that was exported from any console. It is read here, in this page, and sent nowhere.",
    alone ? back("#/", "Log in") : null);
  const problem = trouble();
  const body = h("div", {});
  const input = h("input", { type: "file", accept: ".json,application/json", id: "file", class: "hidden-text" });
  const drop = h("label", { class: "drop", for: "file" }, icon("file"),
    h("span", {}, h("span", { class: "strong" }, "Choose a file"), ", or drop one here"),
    h("span", { class: "sub" }, "It ends in .hence.json"));
  root.append(h("div", { class: "card" }, h("div", { class: "body" }, input, drop)), problem.root, body);

  async function open(file) {
    put(body);
    try {
      if (file.size > MOST_BYTES) throw new Error(`${file.name} is larger than any exported transaction`);
      const report = JSON.parse(await file.text());
      const wrong = check(report);
      if (wrong) throw new Error(`${file.name} cannot be shown: ${wrong}`);
      problem.set(null);
      put(body, h("div", { class: "page-head opened" }, h("h2", {}, "Transaction ", h("code", {}, report.tx)),
        h("p", { class: "sub" }, `${file.name}, workspace ${report.workspace}, exported ${date(report.made_ms)}`)),
          reportBody(report, { now: report.made_ms, links: false }));
      say(`${report.tx} is shown.`);
    } catch (cause) {
      problem.set(cause instanceof SyntaxError ? new Error(`${file.name} is no JSON`) : cause);
    }
  }

  input.addEventListener("change", () => input.files[0] && open(input.files[0]));
  drop.addEventListener("dragover", (e) => {
    e.preventDefault();
    drop.classList.add("over");
  });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (e) => {
    e.preventDefault();
    drop.classList.remove("over");
    if (e.dataTransfer.files[0]) open(e.dataTransfer.files[0]);
  });
  return { root, title: "Open a file" };
}
