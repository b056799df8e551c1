// Package agent is one agent's work: it joins the log and keeps the lease, begins transactions, answers reads, calls
// tools, seals, and settles what was decided. Faces (package http) call it through an interface of
// theirs; each exported method is one flow of the agent's loop.
//
// Guarantees: what an agent is told is in its journal before it is told; an intent that may have reached the log is
// repeated under its number until the log has it, so it counts once; a tool call without a key is marked on the disk
// before it begins, so it begins once; what is decided is settled, by this process or by the next.
//
// It is no face: it knows no HTTP, no token and no route. It decides nothing about the order: what may commit is the
// fold's answer, and what may be done next about an effect is the gate's. It shares no state with another agent but
// the view.
package agent
