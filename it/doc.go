// Package it holds the integration and acceptance tests, and itself those of the house rules and of release archives.
// What every test stands on, and the method:
//
//	harness   starts embedded or real servers, processors, sidecars, the built binary and containers, and kills them;
//	          Main is the TestMain of each folder, Number and Whole read the sizes, Shop and Errands are work with tools
//	traffic   agents that work through sidecars over HTTP and record what they did and were told
//	check     what a history must keep to, as pure functions; each has a violation that it must find
//	recorded  recorded logs and what they must lead to for ever
//
// The work that agents do is of five kinds, because each shows what the others cannot. traffic moves counters without
// tools and notes every answer, for the checkers of histories. Shop and Errands call tools of real sinks. The sink of
// crash takes the fault of each call from its arguments. baselines gives one workload to ways that have no sidecar, so
// its world is in memory. "hence demo" is a user's program with a check of its own; order checks that check by its
// records, and shares none of its code. What calls tell a sink of themselves is read in one place, gate/sinks.
//
// One folder for each subject, one file for each promise; every test prints the figures that it measured:
//
//	order     one order for all: decisions, events, chains, refusals, two replicas, damaged delivery
//	tables    the tables of closure and frontier beside a plain reading of the topics
//	gates     tool calls: isolation, release, compensation, residue, retraction
//	several   many agents in one sidecar: kills, damage to single journals, what they cost
//	crash     sidecars and "hence dev" killed at every step of a settlement and of a start
//	outages   brokers, NATS, processors and sidecars that end, are replaced and are upgraded under load
//	console   the page for people in a real browser
//	compose   the compose files and the image
//	docs      the documents: every block of commands, every link, every word
//
// Every test runs on embedded servers, and on real ones when HENCE_TEST_KAFKA (addresses) and HENCE_TEST_NATS (a URL)
// are set; then with "go test -p 1", because the processors of two packages would share their groups' partitions. With
// HENCE_TEST_CONTAINERS=1 it runs on containers that it starts itself and removes; that needs a container engine with
// the images apache/kafka:4.3.0 and nats:2.15. HENCE_TEST_SERVERS is a folder with scripts "kafka" and "nats" that
// start, kill and bring up servers of a test's own; HENCE_TEST_DATA is a folder in the tau-retail layout. Sizes are
// small by default; the variables that make them larger are in the Makefile.
package it
