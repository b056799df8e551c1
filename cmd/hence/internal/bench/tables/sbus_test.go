package tables

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// pretended is a ground of a store in memory in place of Hence.
type pretended struct {
	rule  rule
	every int64 // each so manieth commit is refused, or taken and dropped; 0: none
	drops bool
}

// Workspace is part of Ground.
func (p pretended) Open(ctx context.Context, site Site) (Place, error) {
	return p.Workspace(ctx, site.Nodes, site.Agents, site.Policy)
}

func (p pretended) Workspace(ctx context.Context, nodes, _ int, _ string) (place Place, err error) {
	s := inMemory(p.rule)
	var commits atomic.Int64
	at, err := serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.every == 0 || r.URL.Path != "/commit" || commits.Add(1)%p.every != 0 {
			s.ServeHTTP(w, r)
			return
		}
		if p.drops {
			_, _ = io.WriteString(w, `{"new_version": 1}`)
			return
		}
		w.WriteHeader(http.StatusConflict)
	}))
	for range nodes {
		place.Buses = append(place.Buses, at)
	}
	return place, err
}

// byTheirWire are rows that need nothing of Hence but its S-Bus. Those of timings are not among them.
func byTheirWire() []string {
	return strings.Fields("S02 S03 S05 S06 S10 S15 S16 S17 S18 S19 S22 S24 S25 S26 S27 S28 S29 S30 S31 S33 S40 S44 " +
		"S49 S50 S51")
}

// TestBusRows holds that the rows of S-Bus are reproduced on a store that decides by the paper's rule, and that each
// verdict falls on one that does not.
func TestBusRows(t *testing.T) {
	for _, row := range Rows() {
		if !strings.Contains(" "+strings.Join(byTheirWire(), " ")+" ", " "+row.ID+" ") {
			continue
		}
		got, err := row.run(t.Context(), &Env{Seed: 1, Subject: Ours(), Ground: pretended{rule: wholeStep}})
		if err != nil || got.Verdict != Reproduced && got.Verdict != Beaten {
			t.Errorf("%s on a store of the paper's rule: %+v, %v", row.ID, got, err)
		}
		fallen := false
		for _, broken := range []pretended{{rule: lastWriter}, {rule: ownVersion}, {rule: wholeStep, every: 7},
			{rule: wholeStep, every: 7, drops: true}} {
			fallen = fallen || falls(t.Context(), row, &Env{Seed: 1, Subject: Ours(), Ground: broken})
		}
		if !fallen {
			t.Errorf("%s: %s: no broken store makes the verdict fall", row.ID, row.Claim)
		}
	}
}
