// Package retail is the shop that the demo's agents work in: customers, orders and the tools of a
// customer-service agent, as pure functions over what was read.
//
// A [Task] is the list of tool calls that one agent makes for one customer, and it is one transaction.
// [Domain.Run] makes the calls over a [Store], which only reads: writes are buffered, later calls of the same
// task see them, and the [Result] hands them back together, to be written whole or not at all. Nothing else goes
// in: no clock, no chance, no state between two runs. So a task that is run again over the same records gives the
// same bytes, which is what lets the demo check itself by replaying what was committed.
//
// Users, orders and the two indexes (by e-mail, by name and zip) are shards, one record each, held as canonical
// JSON (see [Canonical]). Products never change and belong to the [Domain].
//
// Sixteen tools are those of the public retail data set that [Load] reads; what each does to a record was worked
// out from the records which that data set expects after each of its tasks. The seventeenth, annotate_order, is
// our own: it appends a numbered note to an order and always succeeds, so two agents can want the same order for
// ever, and a lost update shows as a number that was given twice. [Small] is a data set of our own for runs
// without any files.
package retail
