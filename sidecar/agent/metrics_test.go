package agent

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/streams"
)

// documented reads the rows of a section's table: name, then type and labels.
func documented(t *testing.T, section string) map[string]string {
	t.Helper()
	text := string(must(os.ReadFile("../../docs/metrics.md"))(t))
	_, rest, ok := strings.Cut(text, "\n## "+section+"\n")
	if !ok {
		t.Fatalf("docs/metrics.md has no section %s", section)
	}
	body, _, _ := strings.Cut(rest, "\n## ")
	out := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\w+) \\|([^|]*)\\|").FindAllStringSubmatch(body, -1) {
		out[row[1]] = strings.Join(strings.Fields(row[2]+" "+strings.ReplaceAll(row[3], "`", "")), " ")
	}
	return out
}

// described reads the same of what a registry serves, now or once there is something to count.
func described(r *prometheus.Registry) map[string]string {
	descs := make(chan *prometheus.Desc)
	go func() { r.Describe(descs); close(descs) }()
	form := regexp.MustCompile(`fqName: "(\w+)".*constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)
	out := map[string]string{}
	for d := range descs {
		part := form.FindStringSubmatch(d.String())
		if strings.HasPrefix(part[1], "go_") || strings.HasPrefix(part[1], "process_") {
			continue
		}
		labels := strings.FieldsFunc(part[3], func(c rune) bool { return c == ',' })
		for _, fixed := range strings.FieldsFunc(part[2], func(c rune) bool { return c == ',' }) {
			name, _, _ := strings.Cut(fixed, "=")
			labels = append(labels, name)
		}
		slices.Sort(labels)
		out[part[1]] = strings.Join(append([]string{kindByName(part[1])}, labels...), " ")
	}
	return out
}

// kindByName is the type of a metric, which its name shows.
func kindByName(name string) string {
	switch {
	case strings.HasSuffix(name, "_total"):
		return "counter"
	case name == "hence_sidecar_seal_decision_seconds", name == "hence_sidecar_view_lag_seconds",
		name == "hence_sidecar_read_age_seconds":
		return "histogram"
	}
	return "gauge"
}

// What is served is what docs/metrics.md lists, name by name and label by label, and no label has many values.
func TestMetricsAreDocumented(t *testing.T) {
	r := start(t, "a", newLog().Door(), withPolicy(t, notesPolicy))
	processors := prometheus.NewRegistry()
	log := must(streams.Dial(t.Context(), streams.Config{Brokers: []string{"127.0.0.1:1"}, Metrics: processors}))(t)
	defer log.Close()
	few := strings.Fields("class route code state way provider result topic partition processor reason kind certain")
	for section, served := range map[string]map[string]string{
		"Sidecar": described(r.counted.Registry), "Processors": described(processors),
	} {
		listed := documented(t, section)
		for _, name := range slices.Sorted(maps.Keys(served)) {
			if listed[name] != served[name] {
				t.Errorf("%s is served as %q and listed as %q", name, served[name], listed[name])
			}
			for _, label := range strings.Fields(served[name])[1:] {
				if !slices.Contains(few, label) {
					t.Errorf("%s has the label %s, which may have many values", name, label)
				}
			}
			if regexp.MustCompile(`_(ms|milliseconds|kb|kib|mb|minutes|percent)(_|$)`).MatchString(name) {
				t.Errorf("%s is not in a base unit", name)
			}
		}
		for name := range listed {
			if served[name] == "" {
				t.Errorf("%s is listed under %s and not served", name, section)
			}
		}
	}
}

// The types are those that the names show, and the figures that are computed at a scrape have their values.
func TestMetricValues(t *testing.T) {
	r := start(t, "a", newLog().Door(), withPolicy(t, notesPolicy))
	tx := must(r.client.Begin(background(t), client.BeginOptions{}))(t)
	families := must(r.counted.Registry.Gather())(t)
	value := map[string]float64{}
	for _, f := range families {
		kind := strings.ToLower(f.GetType().String())
		if strings.HasPrefix(f.GetName(), "hence_") && kind != kindByName(f.GetName()) {
			t.Errorf("%s is a %s", f.GetName(), kind)
		}
		value[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
	}
	for name, least := range map[string]float64{"hence_sidecar_session_live": 1, "hence_sidecar_lease_left_seconds": 1,
		"hence_sidecar_open_transactions": 1, "hence_sidecar_journal_bytes": 10, "hence_sidecar_view_seq": 1} {
		if value[name] < least {
			t.Errorf("%s is %v with %s open, want at least %v", name, value[name], tx.ID(), least)
		}
	}
}

// A counter that is alerted on by its growth is there, at zero, before it counts for the first time.
func TestCountersBeginAtZero(t *testing.T) {
	processors := prometheus.NewRegistry()
	log := must(streams.Dial(t.Context(), streams.Config{Brokers: []string{"127.0.0.1:1"}, Metrics: processors}))(t)
	defer log.Close()
	r := start(t, "a", newLog().Door())
	for _, c := range []struct {
		from *prometheus.Registry
		name string
		want []string // among others
	}{
		{r.counted.Registry, "hence_sidecar_residue_total", []string{"irreversible leaked", "reversible unresolved",
			"bufferable partial", "known_outcome unresolved"}},
		{processors, "hence_records_parked_total", []string{"malformed hence.intents", "oversize hence.events",
			"foreign_version hence-closure-b-table", "key hence-sequencer-table", "partition hence.decisions"}},
	} {
		var got []string
		for _, f := range must(c.from.Gather())(t) {
			if f.GetName() != c.name {
				continue
			}
			for _, m := range f.GetMetric() {
				got = append(got, m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue())
				if n := m.GetCounter().GetValue(); n != 0 {
					t.Errorf("%s begins at %v", c.name, n)
				}
			}
		}
		for _, want := range c.want {
			if !slices.Contains(got, want) {
				t.Errorf("%s has no series %s; it has %v", c.name, want, got)
			}
		}
	}
}
