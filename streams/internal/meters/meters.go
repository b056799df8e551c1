// Package meters has what clients and processors count, under the names that Prometheus sees.
package meters

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hence-dev/hence/topology"
)

// Meters are what a client and the processors count. Several of them in one process count into the same series.
type Meters struct {
	Decisions   *prometheus.CounterVec // by way: received by Follow
	Published   prometheus.Counter     // outcomes given to NATS and to Kafka
	NatsRefused prometheus.Counter     // outcomes that NATS did not take; Kafka has them
	Parked      *prometheus.CounterVec // by topic, reason
	States      prometheus.Counter
	Replays     prometheus.Counter
	Ticks       prometheus.Counter
	Scars       prometheus.Counter
	Anomalies   *prometheus.CounterVec // by kind, certain
	Judged      prometheus.Counter     // operations that the detectors have seen
	Compared    prometheus.Counter     // states of two replicas
	Divergence  prometheus.Gauge       // 1: the replicas differ
	Gaps        prometheus.Counter     // seqs that the frontier's input jumped over
	Restarts    *prometheus.CounterVec // by processor
	Stopped     *prometheus.GaugeVec   // by processor: partitions that have stopped
	Workspaces  prometheus.Gauge       // that have stopped while their partition goes on
	Lag         *prometheus.GaugeVec   // by topic, partition: records between what was begun and the end
}

// New registers all of them; a client's registry has the processors' too.
func New(reg prometheus.Registerer) *Meters {
	m := &Meters{
		Decisions: counters(reg, "hence_decisions_received_total", "Decisions applied by Follow, by way.", "way"),
		Published: counter(reg, "hence_decisions_published_total", "Decisions published, repeated ones too."),
		NatsRefused: counter(reg, "hence_decisions_nats_refused_total",
			"Decisions that NATS did not take; they are in Kafka."),
		Parked: counters(reg, "hence_records_parked_total",
			"Records that could not be read and went to hence.parked.", "topic", "reason"),
		States:  counter(reg, "hence_states_written_total", "States of workspaces written to the sequencer's table."),
		Replays: counter(reg, "hence_records_replayed_total", "Records of hence.intents that were applied before."),
		Ticks:   counter(reg, "hence_ticks_appended_total", "Ticks appended."),
		Scars:   counter(reg, "hence_scars_total", "Transactions that read from a later commit; must stay zero."),
		Anomalies: counters(reg, "hence_anomalies_total",
			"Anomalies found among the last operations, copies too, by kind and whether they are certain.", "kind", "certain"),
		Judged:   counter(reg, "hence_anomalies_operations_total", "Operations in which anomalies were looked for."),
		Gaps:     counter(reg, "hence_frontier_gaps_total", "Seqs missing in hence.decisions; must stay zero."),
		Compared: counter(reg, "hence_replica_states_compared_total", "States of two replicas that were compared."),
		Divergence: registered(reg, prometheus.NewGauge(prometheus.GaugeOpts{Name: "hence_replica_divergence",
			Help: "1 when two replicas have come to different states; must stay zero."})),
		Restarts: counters(reg, "hence_processor_restarts_total", "Processors built again after they stopped.", "processor"),
		Stopped: gauges(reg, "hence_partitions_stopped",
			"Partitions that have stopped: /readyz says why.", "processor"),
		Workspaces: registered(reg, prometheus.NewGauge(prometheus.GaugeOpts{Name: "hence_workspaces_stopped",
			Help: "Workspaces that have stopped before a record, in this process: /readyz says why."})),
		Lag: gauges(reg, "hence_input_lag_records", "Records between the last begun and the end.", "topic", "partition"),
	}
	m.begin()
	return m
}

// begin makes the series that an alert counts by their growth: one that appeared at 1 would not have grown.
func (m *Meters) begin() {
	for _, topic := range []string{topology.TopicIntents, topology.TopicEvents, topology.TopicDecisions} {
		for _, reason := range []string{topology.ParkedEmpty, topology.ParkedMalformed, topology.ParkedForeign,
			topology.ParkedOversize, topology.ParkedKey, topology.ParkedPartition} {
			m.Parked.WithLabelValues(topic, reason)
		}
	}
	for _, group := range []string{topology.GroupSequencer, topology.GroupClosure, topology.GroupFrontier} {
		for _, replica := range []string{topology.ReplicaA, topology.ReplicaB} {
			for _, reason := range []string{topology.ParkedMalformed, topology.ParkedForeign,
				topology.ParkedKey, topology.ParkedPartition} {
				m.Parked.WithLabelValues(topology.TableOf(topology.GroupOf(group, replica)), reason)
			}
		}
	}
}

func counter(reg prometheus.Registerer, name, help string) prometheus.Counter {
	return registered(reg, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
}

func counters(reg prometheus.Registerer, name, help string, labels ...string) *prometheus.CounterVec {
	return registered(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
}

func gauges(reg prometheus.Registerer, name, help string, labels ...string) *prometheus.GaugeVec {
	return registered(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels))
}

// registered registers a collector or returns the one that is there under its name.
func registered[T prometheus.Collector](reg prometheus.Registerer, c T) T {
	err := reg.Register(c)
	var there prometheus.AlreadyRegisteredError
	if errors.As(err, &there) {
		if had, ok := there.ExistingCollector.(T); ok {
			return had
		}
	}
	if err != nil {
		panic("streams: register metrics: " + err.Error())
	}
	return c
}
