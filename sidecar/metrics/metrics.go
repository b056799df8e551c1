// Package metrics counts what one sidecar does, as docs/metrics.md lists it, in a registry of its own.
//
// Guarantees: two sidecars in one process share no series; a counter that an alert watches is there at zero before it
// counts; no label takes values that users make up, such as names of transactions or scopes, but for the names of the
// agents of a process of several: as many as are served, and their series go with them.
//
// It measures nothing by itself but what it is told, and gauges of others when the registry is read.
package metrics

import (
	"cmp"
	"math"
	"net/http"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/streams"
)

// Process are the metrics of a sidecar's process; two sidecars in one process do not share any.
type Process struct {
	Registry   *prometheus.Registry
	requests   *prometheus.CounterVec
	deliveries *prometheus.CounterVec
	models     *prometheus.CounterVec
	references *prometheus.CounterVec
	tokens     *prometheus.CounterVec
	Behind     prometheus.Gauge
}

// New makes the metrics of a process whose view has reached seq.
func New(seq func() float64) *Process {
	m := &Process{
		Registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hence_sidecar_requests_total", Help: "Answered requests by route and class of status."},
			[]string{"route", "class"}),
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hence_sidecar_deliveries_total", Help: "Decisions applied to the view by the way on which they came first."},
			[]string{"way"}),
		models: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hence_sidecar_model_requests_total", Help: "Requests to models by provider and what became of them."},
			[]string{"provider", "result"}),
		references: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hence_sidecar_model_references_total",
			Help: "Shards that answers of models use, by how their conversation had read them."}, []string{"provider", "kind"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hence_sidecar_model_tokens_total", Help: "Tokens that answers of models say that they took."},
			[]string{"provider", "kind"}),
	}
	at := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "hence_sidecar_view_seq", Help: "The seq that the view has reached."},
		seq)
	m.Behind = prometheus.NewGauge(prometheus.GaugeOpts{Name: "hence_sidecar_view_lag_seqs",
		Help: "Decisions that JetStream has and the view has not; NaN while that cannot be known."})
	m.Behind.Set(math.NaN())
	m.Registry.MustRegister(m.requests, m.deliveries, m.models, m.references, m.tokens, at, m.Behind,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Agent are the metrics of one agent of a process.
type Agent struct {
	to           prometheus.Registerer
	all          []prometheus.Collector // that are registered, until Close
	decisions    *prometheus.CounterVec
	AppendErrors prometheus.Counter
	Early        prometheus.Counter
	sealed       prometheus.Histogram
	lag          prometheus.Histogram
	effects      *prometheus.CounterVec
	residues     *prometheus.CounterVec
	tokens       *prometheus.CounterVec
	ages         prometheus.Histogram
	Pending      prometheus.Gauge
}

// Agent makes the metrics of an agent. Its series carry the label agent, unless name is empty: a process of one agent
// has none.
func (p *Process) Agent(name string) *Agent {
	buckets := []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	m := &Agent{
		to: p.Registry,
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hence_sidecar_decisions_total", Help: "Decisions of this agent's transactions by state and code."},
			[]string{"state", "code"}),
		AppendErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hence_sidecar_append_errors_total",
			Help: "Appends to the log whose outcome was unknown; each was repeated."}),
		Early: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hence_sidecar_early_answers_total", Help: "Seals that were refused from the view at once."}),
		sealed: prometheus.NewHistogram(prometheus.HistogramOpts{Buckets: buckets,
			Name: "hence_sidecar_seal_decision_seconds", Help: "From the append of a seal to its decision in the view."}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{Buckets: buckets,
			Name: "hence_sidecar_view_lag_seconds", Help: "From the acknowledgement of a seal to its decision in the view."}),
		effects: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hence_sidecar_effects_total", Help: "Tool calls of this agent by class and what became of them at first."},
			[]string{"class", "state"}),
		residues: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hence_sidecar_residue_total", Help: "Effects that could not be made clean, by class and result."},
			[]string{"class", "result"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hence_sidecar_model_tokens_decided_total",
			Help: "Tokens that models took for work that was then committed, or aborted."}, []string{"state"}),
		ages: prometheus.NewHistogram(prometheus.HistogramOpts{
			Buckets: []float64{.01, .1, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600},
			Name:    "hence_sidecar_read_age_seconds", Help: "Age of the oldest read that a seal carries."}),
		Pending: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hence_sidecar_settlements_pending", Help: "Decided transactions that this sidecar has to settle."}),
	}
	if name != "" {
		m.to = prometheus.WrapRegistererWith(prometheus.Labels{"agent": name}, p.Registry)
	}
	m.begin()
	m.register(m.decisions, m.AppendErrors, m.Early, m.sealed, m.lag, m.effects, m.residues, m.tokens, m.ages, m.Pending)
	return m
}

func (m *Agent) register(all ...prometheus.Collector) {
	m.to.MustRegister(all...)
	m.all = append(m.all, all...)
}

// Close takes the agent's series out of the registry: it has left.
func (m *Agent) Close() {
	for _, one := range m.all {
		m.to.Unregister(one)
	}
}

// begin makes the series that an alert counts by their growth: one that appeared at 1 would not have grown.
func (m *Agent) begin() {
	for class := sequencer.ClassRead; class <= sequencer.ClassKnownOutcome; class++ {
		for result := sequencer.ResultLeaked; result <= sequencer.ResultPartial; result++ {
			m.residues.WithLabelValues(class.String(), result.String())
		}
	}
}

// ReadAge measures the oldest read of a seal.
func (m *Agent) ReadAge(age time.Duration) { m.ages.Observe(age.Seconds()) }

// Tokens counts what models took for work that has been decided.
func (m *Agent) Tokens(state string, n uint64) {
	if n > 0 {
		m.tokens.WithLabelValues(state).Add(float64(n))
	}
}

// References counts the shards that an answer of a model uses, by how its conversation had read them.
func (m *Process) References(provider, kind string, n int) {
	if n > 0 {
		m.references.WithLabelValues(provider, kind).Add(float64(n))
	}
}

// ModelTokens counts what a provider's answers say that they took.
func (m *Process) ModelTokens(provider, kind string, n uint64) {
	if n > 0 {
		m.tokens.WithLabelValues(provider, kind).Add(float64(n))
	}
}

// Model counts a request to a model's API by what became of it.
func (m *Process) Model(provider, result string) { m.models.WithLabelValues(provider, result).Inc() }

// Delivered counts a decision that the view has applied, by the way on which it came first.
func (m *Process) Delivered(way streams.Way) { m.deliveries.WithLabelValues(way.String()).Inc() }

// Effect counts a tool call by what became of it at first.
func (m *Agent) Effect(class sequencer.Class, state string) {
	m.effects.WithLabelValues(class.String(), state).Inc()
}

// Residue counts an effect that could not be made clean.
func (m *Agent) Residue(class sequencer.Class, result sequencer.Result) {
	m.residues.WithLabelValues(class.String(), result.String()).Inc()
}

// Answered counts an answer of a route by the class of its HTTP status.
func (m *Process) Answered(route string, status int) {
	m.requests.WithLabelValues(route, classOf(status)).Inc()
}

// classOf is a status as its class is written.
func classOf(status int) string {
	switch status / 100 {
	case 2:
		return "2xx"
	case 4:
		return "4xx"
	}
	return strconv.Itoa(status/100) + "xx"
}

// Decided counts a decision of the agent's, and how long its seal took; sent and acked are zero where that is not
// known.
func (m *Agent) Decided(state string, code sequencer.Code, sent, acked, now time.Time) {
	m.decisions.WithLabelValues(state, cmp.Or(string(code), "none")).Inc()
	if sent.IsZero() {
		return
	}
	m.sealed.Observe(now.Sub(sent).Seconds())
	if acked.IsZero() {
		m.lag.Observe(0)
		return
	}
	m.lag.Observe(now.Sub(acked).Seconds())
}

// Gauge registers what is looked at when it is asked for.
func (m *Process) Gauge(name, help string, f func() float64) {
	m.Registry.MustRegister(gauge(name, help, f))
}

// Gauge registers what is looked at when it is asked for.
func (m *Agent) Gauge(name, help string, f func() float64) { m.register(gauge(name, help, f)) }

func gauge(name, help string, f func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f)
}

// Count registers a counter that is kept elsewhere.
func (m *Process) Count(name, help string, labels prometheus.Labels, f func() uint64) {
	m.Registry.MustRegister(counter(name, help, labels, f))
}

// Count registers a counter that is kept elsewhere.
func (m *Agent) Count(name, help string, labels prometheus.Labels, f func() uint64) {
	m.register(counter(name, help, labels, f))
}

func counter(name, help string, labels prometheus.Labels, f func() uint64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels},
		func() float64 { return float64(f()) })
}

// Handler serves the registry in Prometheus' text format, to four readers at once at most.
func (m *Process) Handler() http.Handler {
	return promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// Counters are what a sidecar has counted since it was made.
type Counters struct {
	Committed int `json:"committed"` // of this agent's transactions
	Refused   int `json:"refused"`   // aborted, and not at the agent's wish
	Held      int `json:"held"`      // calls that were held back until the commit
	Residue   int `json:"residue"`   // effects that could not be made clean
}

// Counters are those of now.
func (m *Agent) Counters() Counters {
	byAgent := string(sequencer.CodeAbortedByAgent)
	return Counters{
		Committed: total(m.decisions, "state", func(v string) bool { return v == api.StateCommitted }),
		Refused:   total(m.decisions, "code", func(v string) bool { return v != "none" && v != byAgent }),
		Held:      total(m.effects, "state", func(v string) bool { return v == "held" }),
		Residue:   total(m.residues, "result", func(string) bool { return true }),
	}
}

// total adds up the counters of a family whose label has a value that counts.
func total(of *prometheus.CounterVec, label string, counts func(value string) bool) (n int) {
	all := make(chan prometheus.Metric)
	go func() {
		of.Collect(all)
		close(all)
	}()
	for one := range all {
		var m dto.Metric
		if one.Write(&m) != nil {
			continue // it has no value that could be read
		}
		for _, l := range m.GetLabel() {
			if l.GetName() == label && counts(l.GetValue()) {
				n += int(m.GetCounter().GetValue())
			}
		}
	}
	return n
}
