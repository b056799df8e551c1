package gate

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

// resigned is the world's policy after each of its declarations got another signature.
type resigned struct {
	*world
	signature string
	calls     int // of any kind
}

func (r *resigned) Find(tool string, args json.RawMessage) (Tool, error) {
	t, err := r.world.Find(tool, args)
	if t.Pin = nil; r.signature != "" {
		t.Pin = &sequencer.Pin{Server: "another name is no other declaration", Name: tool, Signature: r.signature}
	}
	return t, err
}

func (r *resigned) Adapter(string) (Adapter, error) { return r, nil }

func (r *resigned) Call(ctx context.Context, c Call) (Answer, error) {
	r.calls++
	return r.world.Call(ctx, c)
}

func (r *resigned) LookUp(ctx context.Context, c Call) (Answer, error) {
	r.calls++
	return r.world.LookUp(ctx, c)
}

// TestChangedTool settles each kind of effect whose declaration has changed: nothing is called, not even for a
// look-up, and what is said of it is the truth. With the former signature everything goes on.
func TestChangedTool(t *testing.T) {
	for _, c := range []struct {
		name    string
		class   sequencer.Class
		undo    bool
		ready   func(*Progress)
		settle  func(*Engine, []Progress) (Settlement, error)
		want    sequencer.Result
		changed string // how it is signed now
	}{
		{"held", sequencer.ClassIrreversible, false, nil, release, sequencer.ResultPartial, "b"},
		{"held, and no declaration is left", sequencer.ClassIrreversible, false, nil, release, sequencer.ResultPartial, ""},
		{"begun", sequencer.ClassIrreversible, false, begun, release, sequencer.ResultUnresolved, "b"},
		{"ran, to undo", sequencer.ClassReversible, true, ran, undoAll, sequencer.ResultLeaked, "b"},
		{"ran, to look up", sequencer.ClassKnownOutcome, false, ran, undoAll, sequencer.ResultLeaked, "b"},
		{"unknown, to look up", sequencer.ClassKnownOutcome, false, begun, undoAll, sequencer.ResultUnresolved, "b"},
		{"unknown, to repeat", sequencer.ClassReversible, true, begun, undoAll, sequencer.ResultUnresolved, "b"},
		{"the same", sequencer.ClassIrreversible, false, nil, release, sequencer.ResultClean, "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.lookups = true
			tools := &resigned{world: w, signature: c.changed}
			g := New(Options{Tools: tools, Marks: w, Lease: w, Clock: w})
			p := w.add(c.class, true, c.undo, true)
			p.Tool.Pin = &sequencer.Pin{Server: "policy", Name: p.Tool.Name, Signature: "a"}
			if c.ready != nil {
				c.ready(&p)
			}
			s, err := c.settle(g, []Progress{p})
			must(t, err)
			if len(s.Effects) != 1 || s.Effects[0].Result != c.want {
				t.Fatalf("it settles as %+v, want %s", s.Effects, c.want)
			}
			if c.want == sequencer.ResultClean {
				return
			}
			r := s.Residue[0]
			if tools.calls > 0 || r.Code != CodeChangedTool || !strings.Contains(r.Detail, "had signature a, and now has ") {
				t.Errorf("%d calls, residue %q: %s", tools.calls, r.Code, r.Detail)
			}
		})
	}
}

func release(g *Engine, effects []Progress) (Settlement, error) {
	return g.Release(context.Background(), effects, ClaimSuccessor)
}

func undoAll(g *Engine, effects []Progress) (Settlement, error) {
	return g.Undo(context.Background(), effects, ClaimSuccessor)
}

func begun(p *Progress) { p.Started = true }

func ran(p *Progress) { p.Started, p.Answer = true, &Answer{} }

// TestUnchanged says what counts as the declaration that was sealed.
func TestUnchanged(t *testing.T) {
	w := newWorld()
	p := w.add(sequencer.ClassIrreversible, true, false, false)
	tools := &resigned{world: w, signature: "b"}
	for _, c := range []struct {
		name, sealed, former string
		pinned, want         bool
	}{
		{"no pin", "", "", false, true},
		{"the same", "b", "", true, true},
		{"another", "a", "", true, false},
		{"as an older release signed it", "a", "a", true, true},
		{"an empty one is none", "", "", true, false},
	} {
		if p.Tool.Pin = nil; c.pinned {
			p.Tool.Pin = &sequencer.Pin{Signature: c.sealed}
		}
		err := Unchanged(formerly{tools, c.former}, &p.Effect)
		if (err == nil) != c.want || err != nil && !errors.Is(err, ErrChangedTool) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// formerly is a policy that says how an older release signed its tools.
type formerly struct {
	Tools
	signature string
}

func (f formerly) Find(tool string, args json.RawMessage) (Tool, error) {
	t, err := f.Tools.Find(tool, args)
	t.Former = f.signature
	return t, err
}
