package lightcone

import "slices"

// System is a kind of place that many have, as its makers describe it.
type System struct {
	Name   string
	Config Config
	Source string // where it is described
}

// Systems are those that a topology may name. What they promise is read from their makers' descriptions, not measured,
// and some settings weaken it.
func Systems() []System {
	everything, none := Set{Everything}, Set(nil)
	of := func(closure Set, order Label, wait Wait) Config {
		c := Config{Closure: closure, Order: order, Wait: wait}
		if order != "" {
			c.Arbitration.Rule = Causal
		}
		return c
	}
	report := func(c Config, s Select) Config {
		c.Select = s
		return c
	}
	const table, slot, partition, key = "object(table)", "object(slot)", "object(partition)", "object(key)"
	lww := of(none, key, Finite)
	lww.Arbitration = Arbitration{}
	crdt := report(of(Set{key}, "", Finite), Computed)
	crdt.Confluent = true
	crdtOps := report(of(everything, "", Finite), Computed)
	crdtOps.Confluent = true
	return []System{
		{"postgres", of(everything, Everything, NoWait),
			"PostgreSQL manual, Transaction Isolation: a snapshot per transaction; READ COMMITTED: per statement"},
		{"postgres-standby", of(everything, Everything, Finite),
			"PostgreSQL manual, Hot Standby: replays the log in its order, later"},
		{"postgres-logical", of(none, table, Finite),
			"PostgreSQL manual, Logical Replication: each table by itself"},
		{"redis", of(everything, Everything, NoWait), "Redis documentation: one primary, commands run one after the other"},
		{"redis-replica", of(none, Everything, Finite), "Redis documentation: a prefix of the primary's commands"},
		{"redis-cluster", of(none, slot, Finite), "Redis Cluster specification: each hash slot by itself"},
		{"kafka-topic", of(none, partition, Finite), "Kafka documentation: records are ordered within a partition"},
		{"kafka-partition", of(none, Everything, Finite), "Kafka documentation: records are ordered within a partition"},
		{"kafka-compacted", of(none, key, Finite),
			"Kafka documentation, Log Compaction: read to the end, the latest of each key; no history"},
		{"s3", of(Set{key}, key, NoWait), "Amazon S3 user guide, data consistency model: each key by itself"},
		{"s3-listing", of(none, "", NoWait), "Amazon S3 user guide: no order of two keys is promised"},
		{"dynamo-siblings", report(of(Set{key}, "", Finite), Multi), "the Dynamo paper: all concurrent versions"},
		{"last-writer-wins", lww, "the greatest timestamp wins: give the clocks' uncertainty and the distance"},
		{"cache-ttl", report(of(none, "", Bounded), KLatest), "a copy is used until its time has passed"},
		{"cache", report(of(none, "", Absent), KLatest), "a copy is used until it is dropped"},
		{"crdt-state", crdt, "Shapiro and others 2011: states that merge"},
		{"crdt-operations", crdtOps, "Shapiro and others 2011: operations that commute, delivered by causes"},
	}
}

// Named is a system of a list by its name.
func Named(systems []System, name string) (System, bool) {
	at := slices.IndexFunc(systems, func(s System) bool { return s.Name == name })
	if at < 0 {
		return System{}, false
	}
	return systems[at], true
}

// In gives a system's labels the name of the place that has them, so that two places of a kind are not one.
func (c Config) In(place string) Config {
	closure := make(Set, len(c.Closure))
	for i, l := range c.Closure {
		closure[i] = l.in(place)
	}
	c.Closure, c.Order = closure, c.Order.in(place)
	return c
}

func (l Label) in(place string) Label {
	for i := range l {
		if l[i] == '(' {
			return l[:i+1] + Label(place) + "/" + l[i+1:]
		}
	}
	if l == "" || l == Everything {
		return l
	}
	return l + "(" + Label(place) + ")"
}
