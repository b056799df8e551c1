package lightcone

import (
	"slices"
	"strings"
)

// Row is a configuration of the catalogue.
type Row struct {
	Number  int
	Name    string
	Model   string // its name in the survey of Viotti and Vukolić; empty: it has none
	Example string // a system that is often named for it; it was not measured
	Config  Config
}

// Filters are the paper's closure filters, weakest first; object and session cannot be compared.
func Filters() []Set { return []Set{nil, {Object}, {Session}, {Everything}} }

// ObjectAndSession is the filter without which two configurations may have no strongest common weaker one.
func ObjectAndSession() Set { return Set{Object, Session} }

// Scopes are the paper's scopes of an order, weakest first.
func Scopes() []Label { return []Label{"", Object, Everything} }

// Configs are all pairs of some filters and the scopes, filters first, under one arbitration.
func Configs(filters []Set, a Arbitration) (all []Config) {
	for _, c := range filters {
		for _, o := range Scopes() {
			all = append(all, Config{Closure: c, Order: o, Wait: Finite, Arbitration: a})
		}
	}
	return all
}

// Catalogue is the paper's table: each filter with each scope and each wait, where without a wait no fork is held open
// and the three scopes are one row. Names are for people; they decide nothing.
func Catalogue() (rows []Row) {
	names := strings.Split(strings.TrimSpace(catalogueNames), "\n")
	for _, c := range Filters() {
		for _, o := range Scopes() {
			for _, w := range Waits() {
				if w == NoWait && o != Everything {
					continue
				}
				fields := strings.Split(names[len(rows)], "|")
				rows = append(rows, Row{Number: len(rows) + 1, Name: fields[0], Model: fields[1], Example: fields[2],
					Config: Config{Closure: c, Order: o, Wait: w, Arbitration: Arbitration{Rule: Causal}}})
			}
		}
	}
	return rows
}

// NameOf is the catalogue's row for what a configuration promises; by its kinds of labels, whatever they are called.
// False: it is none of the catalogue's.
func NameOf(c Config) (Row, bool) {
	kind := func(l Label) Label {
		word, _, _ := strings.Cut(string(l), "(")
		return Label(word)
	}
	var closure Set
	for _, l := range c.Closure {
		closure = append(closure, kind(l))
	}
	rows := Catalogue()
	at := slices.IndexFunc(rows, func(r Row) bool {
		return slices.Equal(r.Config.Closure, closure) && r.Config.Order == kind(c.Order) && r.Config.Wait == c.Wait
	})
	if at < 0 {
		return Row{}, false
	}
	return rows[at], true
}

// catalogueNames are name, model and example of each row, in the order of Catalogue.
const catalogueNames = `
no guarantees|weak|UDP, mail
eventual delivery|eventual|Dynamo anti-entropy
bounded eventual|bounded staleness|QoS networks
per-object unread log||write-ahead log before recovery
per-object ordered|FIFO|Kafka partition
bounded per-object order|bounded staleness|Cosmos DB bounded
global unread log||Raft log before apply
total-order broadcast|TOB, consistent prefix|Redis replication
bounded total order||MySQL semi-sync
instant total order||network switch
per-object snapshot||
per-object causal|per-object causal, slow memory|
bounded per-object causal||
per-object ordered snapshot||
per-object sequential|per-object sequential, coherence|Cassandra per key
bounded per-object sequential||
global per-object unread log||
per-object globally ordered||single leader per shard
bounded per-object global||
per-object sequential, current||
session snapshot||frozen session
session causal|PRAM, RYW, monotonic reads|MongoDB causal sessions
bounded session causal||
session per-object snapshot||
session per-object causal|monotonic writes, processor, WFR|
bounded session per-object causal||
global session unread log||
session sequential||
bounded session sequential||
session sequential, current||
consistent snapshot||point-in-time backup
causal|causal|
bounded causal|bounded causal|geo-distributed causal
per-object causal snapshot||
causal per-object order|causal++|COPS, Eiger
bounded causal per-object||CockroachDB
global causal unread log||finalized blockchain
sequential|sequential|ZooKeeper
bounded sequential|timed serial|
sequential, current|sequential|single node, mutex
`
