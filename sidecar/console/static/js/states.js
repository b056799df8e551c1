import { h } from "./dom.js";
import { icon } from "./icons.js";

// Every state: its word, its tone and its shape.
const states = {
  open: ["open", "calm", "open"],
  waiting: ["waiting", "wait", "waiting"],
  sealed: ["sealed", "seal", "sealed"],
  decided: ["decided", "seal", "sealed"],
  committed: ["committed", "good", "committed"],
  settled: ["settled", "good", "committed"],
  aborted: ["aborted", "bad", "aborted"],
  settling: ["settling", "seal", "settling"],
  orphan: ["orphan", "wait", "orphan"],
  retracting: ["retracting", "wait", "retracting"],
  retracted: ["retracted", "bad", "retracting"],
  gone: ["session ended", "calm", "gone"],
  // decisions
  begun: ["begun", "calm", "open"],
  granted: ["granted", "seal", "granted"],
  refused: ["refused", "wait", "aborted"],
  registered: ["tools known", "calm", "note"],
  unregistered: ["tools gone", "wait", "note"],
  selected: ["branch chosen", "good", "committed"],
  joined: ["joined", "calm", "agents"],
  lease_ended: ["lease ended", "wait", "gone"],
  adopted: ["adopted", "seal", "agents"],
  rules: ["rules", "calm", "note"],
  turn: ["undo turn", "wait", "retracting"],
  confirmed: ["lease confirmed", "calm", "note"],
  // tool calls
  held: ["held", "wait", "held"],
  waits_for_approval: ["waits for approval", "wait", "held"],
  releasing: ["releasing", "seal", "settling"],
  released: ["released", "good", "released"],
  not_sent: ["not sent", "bad", "residue"],
  dropped: ["dropped", "calm", "gone"],
  called: ["called", "calm", "call"],
  done: ["done", "good", "committed"],
  undone: ["undone", "calm", "retracting"],
  "not undone": ["not undone", "bad", "residue"],
  unknown: ["unknown", "bad", "orphan"],
  // residue
  leaked: ["leaked", "bad", "residue"],
  unresolved: ["unresolved", "wait", "orphan"],
  partial: ["partial", "wait", "residue"],
  clean: ["clean", "good", "committed"],
  accepted: ["accepted", "calm", "committed"],
  resolved: ["resolved", "good", "committed"],
};

// A state of a later version is shown by its own word.
const unknown = (name) => [(name || "unknown").replaceAll("_", " "), "calm", "note"];
export const look = (name) => states[name] ?? unknown(name);
export const tone = (name) => look(name)[1];

export function chip(name) {
  const [word, colour, picture] = look(name);
  return h("span", { class: `chip tone-${colour}` }, icon(picture), word);
}

// What codes mean, in few words; the whole sentence comes with the transaction.
const reasons = {
  stale_read: "what it read was overwritten",
  version_mismatch: "a shard had another version",
  conflict: "a younger one had been granted it",
  wounded: "an older one needed what it held",
  cascade: "it rested on something that was undone",
  phantom_tool: "a tool it relied on changed",
  lost_branch: "another branch was chosen",
  vetoed: "the hook said no",
  hook_unavailable: "the hook said neither yes nor no",
  denied: "a call was denied, or not approved in time",
  deadline: "it took too long",
  incomplete_footprint: "it went beyond what it claimed",
  lease_expired: "its sidecar was gone too long",
  too_old: "it rests on what is forgotten",
  tool_failed: "a tool call failed",
  aborted_by_agent: "its agent gave it up",
  rules_changed: "the rules changed under it",
};
export const reason = (code) => reasons[code] ?? "";

const whys = {
  granted: "was granted it",
  claimed: "claims it",
  held: "is committed and not released yet",
  sealed_read: "has read it",
  read_from: "it read from that one",
  branch: "no branch is chosen yet",
  verdict: "the hook has not answered yet",
  approval: "a call needs approval",
  orphan: "no sidecar settles that one now",
};
// listed says whether a decision is in lists without a filter for it: leases are confirmed all the time.
export const listed = (row) => row.kind !== "confirmed";

export const why = (name) => whys[name] ?? name;
