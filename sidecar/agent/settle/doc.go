// Package settle brings what an agent's transactions have set going to an end once they are decided. It makes the
// calls that a commit has let go, undoes those of an abort or of a retraction, in the order of its turns, and tells
// the log what came of them: a settlement. What could not be made clean it puts on the list of residues, and tries
// again by hand. It settles what this agent's sessions have left, and adopts what other agents have, whose sidecars
// do not come back.
//
// What it may do about a call rests on who may still make it: the process that issued it, while its lease lasts;
// the successor that holds that process's whole journal; or anybody who has only the log, once no former process
// can begin a call any more (formers.go). What is done next about one call is not decided here: gate.Next says it.
//
// It knows no agent. What it needs of one are the interfaces of settler.go: the session, the lease, and the agent's
// own transactions. An agent's loop owns it, and its methods are called inside of flows.
//
// Guarantees: what is decided is settled, by whichever sidecar, as long as one lives; no call leaves that another
// process may make; an unknown outcome is reported as unresolved, and is on the list before the log has the
// settlement.
package settle
