package topology

import (
	"errors"
	"strings"
	"testing"
)

// TestAnomalyID: a finding has one id, independent of finder, decision and window; another witness, kind or cell is
// another finding.
func TestAnomalyID(t *testing.T) {
	id := sampleAnomaly().ID()
	for what, change := range map[string]func(*Anomaly){
		"seq":    func(a *Anomaly) { a.Seq = 70 },
		"window": func(a *Anomaly) { a.Window = 10 },
		"count":  func(a *Anomaly) { a.Count = 9 },
		"would":  func(a *Anomaly) { a.Would = "" },
	} {
		a := sampleAnomaly()
		if change(a); a.ID() != id {
			t.Errorf("another %s has another id", what)
		}
	}
	for what, change := range map[string]func(*Anomaly){
		"workspace":  func(a *Anomaly) { a.Workspace = "other" },
		"kind":       func(a *Anomaly) { a.Kind = "A3" },
		"certainty":  func(a *Anomaly) { a.Certain = false },
		"cell":       func(a *Anomaly) { a.Cell = "shard:/orders/18" },
		"other cell": func(a *Anomaly) { a.OtherCell = "" },
		"operation":  func(a *Anomaly) { a.Operations[1].Tx = "tx-d" },
		"order":      func(a *Anomaly) { a.Operations[0], a.Operations[1] = a.Operations[1], a.Operations[0] },
		"names":      func(a *Anomaly) { a.Operations[0].Tx, a.Operations[1].Tx = "tx-bt", "x-c" },
	} {
		a := sampleAnomaly()
		if change(a); a.ID() == id {
			t.Errorf("another %s has the same id", what)
		}
	}
}

// TestAnomalyRefuses holds what no record may be, in both directions.
func TestAnomalyRefuses(t *testing.T) {
	for what, change := range map[string]func(*Anomaly){
		"no workspace":    func(a *Anomaly) { a.Workspace = "" },
		"no kind":         func(a *Anomaly) { a.Kind = "" },
		"no operation":    func(a *Anomaly) { a.Operations = nil },
		"many operations": func(a *Anomaly) { a.Operations = make([]AnomalyOp, MaxAnomalyOps+1) },
		"not UTF-8":       func(a *Anomaly) { a.Cell = "\xff" },
		"too long":        func(a *Anomaly) { a.Sentence = strings.Repeat("s", MaxAnomalyBytes) },
	} {
		a := sampleAnomaly()
		change(a)
		if _, err := EncodeAnomaly(a, sampleTime); err == nil {
			t.Errorf("%s: it is written", what)
		}
	}
	b, err := EncodeAnomaly(sampleAnomaly(), sampleTime)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(b), AnomalyType, "dev.hence.anomaly.v2", 1)
	if _, err := DecodeAnomaly([]byte(text)); !errors.Is(err, ErrForeignVersion) {
		t.Errorf("another version: %v", err)
	}
	text = strings.Replace(string(b), `"kind":"A1"`, `"kind":""`, 1)
	if _, err := DecodeAnomaly([]byte(text)); !errors.Is(err, ErrMalformed) {
		t.Errorf("no kind: %v", err)
	}
}

// TestAnomaliesAreAskedFor: an installation that does not look for anomalies has no topic for them.
func TestAnomaliesAreAskedFor(t *testing.T) {
	has := func(o Options) bool {
		for _, topic := range Topics(o) {
			if topic.Name == TopicAnomalies {
				return true
			}
		}
		return false
	}
	if has(Options{}) || !has(Options{Anomalies: true}) {
		t.Errorf("without: %t, with: %t", has(Options{}), has(Options{Anomalies: true}))
	}
}
