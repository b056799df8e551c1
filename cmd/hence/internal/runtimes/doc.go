// Package runtimes has small runtimes to compare with: what other systems do about agents that read, think and write,
// each really implemented, over one store.
//
// An agent begins an operation on cells and gets their values; it thinks; it commits writes. A runtime is a store of
// cells, a registry of tools, and guards, which may refuse or defer a step. Without a guard every step is taken as it
// comes.
//
//	runtime            its guard validates                           excludes    lets through
//	vanilla            nothing                                       -           A1 A2 A3 A6
//	pessimistic-drop   exclusive locks on what is read and written   A1          A2 A3 A6
//	pessimistic-wait   the same, and a begin waits for its locks     A1          A2 A3 A6
//	snapshot           what was read is current, where it writes     -           A1 of read-only operations, A2 A3 A6
//	serializable       what was read is current, always              A1          A2 A3 A6
//	provenance         whom it rests on stands                       A3          A1 A2 A6
//	cascade            both of these                                 A1 A3       A2 A6
//	sequencer          effects leave in the order of issue           A6          A1 A2 A3
//	saga               an effect begins when the one before is done  A6          A1 A2 A3
//	registry-validate  the planned tool is what it was               A2          A1 A3 A6
//	registry-pinned    nothing: calls go to the registry of the read A2          A1 A3 A6
//
// Guards of different runtimes hold different things and compose: New(Cascade, Sequencer, RegistryValidate) excludes
// all four, and ForPoint has one for each of the sixteen points.
//
// Time is the length of the log of commits, as in package trace: a commit, also one that only reads, makes it longer
// by one, and what is committed at t is seen by operations that begin at t or later. All cells of an operation become
// visible at once. Each method is one step, under one mutex; a schedule is the order of the calls.
//
// Each run has its history as trace records, which say whose writes every operation had read; what was refused stands
// among them as aborted. Nothing here judges: package anomaly does, from the records alone.
package runtimes
