// Package loop is the one owner of an agent's state. What works on that state is a flow: straight-line code on a
// goroutine of its own. One flow at a time holds the loop, and gives way at Await and Do alone, so nothing changes
// between two lines of a flow unless one of them stands there.
//
//	l.Run(func() {
//		if err = l.AwaitOn(ctx, &t.changed, func() bool { return !t.busy }); err != nil {
//			return // the request ended first
//		}
//		t.busy = true
//		l.Do(func() { answer, err = call(ctx) }) // others go on; look again at what they may have changed
//		t.busy = false
//		l.Moved(&t.changed)
//	})
//
// Guarantees:
//   - Of the flows that can go on the oldest does; a flow is as old as its entry, whatever it has waited for since.
//   - A wait ends with its condition true, with its context, or, but for AwaitThrough, with Stop. No wake-up is lost:
//     the conditions that a flow may have turned true are asked as it gives way, and the one that was picked is asked
//     again.
//   - A condition that watches something (AwaitOn) is asked only after Moved. A simulation, and Options.Verify, panic
//     where a call of Moved is missing.
//
// Not guaranteed: that a flow ends. One that blocks without Do holds up its whole agent, so what waits for a network,
// a sink or another flow stands in Do. A write to the journal does not: the order of its records is that of the flows.
//
// In a simulation all loops share one Sched, which picks by its seed what goes on: every entry, every end of a wait,
// and both ends of each Do. Production pays one comparison for that.
//
// What it costs, against a mutex with waits by key (BenchmarkLoop in package sidecar, two cores, medians of six runs):
// a local read takes 0.71 of the time, a decision 0.91 to 1.01, a tool call 1.02, with any number of seals in flight
// up to 1,000 as long as their waits watch their transaction. A wait that watches nothing costs each turn of the loop
// 6 ns while it lasts: with 64 of them a read takes 0.80 and a call 1.17, with 1,000 2.6 and 3.9.
package loop
