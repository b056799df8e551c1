package tables

import (
	"context"
	"testing"
	"time"
)

// acted is a ground whose fleets are stores.
type acted struct {
	pretended
	fleet func() Fleet
}

// Fleet is part of Fleets.
func (a acted) Fleet(context.Context) (Fleet, error) { return a.fleet(), nil }

// durable is peers of which one that is all in one process keeps nothing without a folder.
type durable struct{ *peers }

// Whole is part of Fleet.
func (d durable) Whole(ctx context.Context, folder bool) (Part, error) {
	if folder {
		return d.peers.Whole(ctx, true)
	}
	return (&peers{rule: wholeStep, keeps: keepsNothing}).Sidecar(ctx)
}

// strangers is peers whose fourth knows nothing of the others.
type strangers struct{ *peers }

// Sidecar is part of Fleet.
func (s strangers) Sidecar(ctx context.Context, _ ...string) (Part, error) {
	if len(s.all) < 3 {
		return s.peers.Sidecar(ctx)
	}
	return (&peers{rule: wholeStep}).Sidecar(ctx)
}

// deciders is peers whose processors are all of it.
type deciders struct{ *peers }

// Processor is part of Fleet.
func (d deciders) Processor(ctx context.Context, _ string) (Part, error) { return d.Sidecar(ctx) }

// TestNodeRows holds that the rows of nodes that die are reproduced on stores that keep all, and that each verdict
// falls on some that do not.
func TestNodeRows(t *testing.T) {
	good := func() Fleet { return durable{&peers{rule: wholeStep}} }
	for id, broken := range map[string]func() Fleet{
		"S35": func() Fleet { return &peers{rule: wholeStep, keeps: keepsNothing} },
		"S36": func() Fleet { return deciders{&peers{rule: wholeStep, keeps: keepsNothing}} },
		"S37": func() Fleet { return strangers{&peers{rule: wholeStep}} },
		"S38": func() Fleet { return &peers{rule: wholeStep, lag: -1} },
		"S39": func() Fleet { return &peers{rule: wholeStep, lag: time.Hour} },
		"S47": func() Fleet { return durable{&peers{rule: wholeStep, keeps: keepsCommits}} },
		"S48": good, // whose sessions do not end
	} {
		e := &Env{Seed: 1, Subject: Ours(), Ground: acted{fleet: good}}
		if id != "S48" {
			if got, err := nodeRuns()[id](t.Context(), e); err != nil || got.Verdict == Missed {
				t.Errorf("%s on stores that keep all: %+v, %v", id, got, err)
			}
		}
		e.Ground = acted{fleet: broken}
		if !falls(t.Context(), Row{ID: id, run: nodeRuns()[id]}, e) {
			t.Errorf("%s: no broken fleet makes the verdict fall", id)
		}
	}
}
