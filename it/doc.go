// Package it holds the integration and acceptance tests. The tree is the method:
//
//	harness  starts what a test stands on: embedded or real servers, processors, sidecars, the built binary, kills
//	traffic  agents that work through sidecars over HTTP and record what they did and were told
//	check    what a history must keep to, as pure functions; each has a violation that it must find
//	*_test   one file for each promise; every test prints the figures that it measured
//
// Every test runs on embedded servers, and on real ones when HENCE_TEST_KAFKA (addresses) and HENCE_TEST_NATS (a URL)
// are set. With HENCE_TEST_CONTAINERS=1 it runs on containers that it starts itself and removes; that needs a
// container engine with the images apache/kafka:4.3.0 and nats:2.15. HENCE_TEST_SERVERS is a folder with scripts
// "kafka" and "nats" that start, kill and bring up servers of a test's own; HENCE_TEST_DATA is a folder in the
// tau-retail layout. Sizes are small by default; the variables that make them larger are in the Makefile.
package it
