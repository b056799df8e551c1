package sequencer_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

// recordLimit is the broker's limit for one record, in bytes; a state record must stay below it.
const recordLimit = 1 << 20

// sizeOf estimates what a value takes in a record from above: five bytes for a number or a length, one for a flag.
func sizeOf(v reflect.Value) int {
	switch v.Kind() {
	case reflect.String:
		return 5 + v.Len()
	case reflect.Pointer:
		if v.IsNil() {
			return 1
		}
		return 1 + sizeOf(v.Elem())
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return 5 + v.Len()
		}
		n := 5
		for i := range v.Len() {
			n += sizeOf(v.Index(i))
		}
		return n
	case reflect.Struct:
		n := 1
		for i := range v.NumField() {
			n += sizeOf(v.Field(i))
		}
		return n
	case reflect.Bool, reflect.Uint8, reflect.Int8:
		return 1
	}
	return 5
}

// hostile is a sidecar that makes the fold keep as much as it lets it.
type hostile struct {
	t    *testing.T
	fold *sequencer.Fold
	at   int64
	peak int
	seen func(*sequencer.Outcome) // where set, is given each outcome
}

func newHostile(t *testing.T) *hostile { return &hostile{t: t, fold: sequencer.New("ws")} }

func (h *hostile) step(in *sequencer.Intent) {
	h.t.Helper()
	step, err := h.fold.Step(h.at, in)
	if err != nil {
		h.t.Fatal(err)
	}
	for i := range step.Outcomes {
		if h.seen != nil {
			h.seen(&step.Outcomes[i])
		}
	}
	h.at++
	if h.at%50 != 0 {
		return
	}
	st := h.fold.State()
	if h.peak = max(h.peak, sizeOf(reflect.ValueOf(st))); h.peak >= recordLimit {
		h.t.Fatalf("after %d records the state takes about %d bytes: %d transactions, %d writes, %d joins, %d groups",
			h.at, h.peak, len(st.Txs), len(st.Window), len(st.Joins), len(st.Groups))
	}
}

func (h *hostile) join(agent string) {
	h.step(&sequencer.Intent{Kind: sequencer.IntentJoin, Agent: agent, Join: &sequencer.Join{ID: agent,
		Logic: sequencer.Logic}})
}

// scopes are n scopes of about 200 bytes, all different.
func scopes(i, n int) []sequencer.Scope {
	var out []sequencer.Scope
	for j := range n {
		out = append(out, sequencer.Scope(fmt.Sprintf("doc:/%s/%d/%d", strings.Repeat("x", 190), i, j)))
	}
	return out
}

// TestKeptBytesAreBounded: 1,000 open transactions and more, with footprints as large as the fold takes, of every
// shape; then all that committed writes leave in the window. A state record stays below the broker's limit.
func TestKeptBytesAreBounded(t *testing.T) {
	h := newHostile(t)
	h.join("a")
	for i := range 3_000 {
		in := large(i)
		in.Base = h.fold.Seq()
		h.step(in)
	}
	for i := range 6_000 {
		id := sequencer.TxID(fmt.Sprintf("w%d", i))
		scope := sequencer.Scope("shard:/" + strings.Repeat("y", 500) + "/" + string(id))
		h.step(&sequencer.Intent{Kind: sequencer.IntentSeal, Tx: id, N: 1, Agent: "a", Incarnation: 1, Base: h.fold.Seq(),
			Seal: &sequencer.Seal{Shards: []sequencer.ShardWrite{{Scope: scope}}}})
	}
	t.Logf("at most about %d bytes", h.peak)
}

// large makes the i-th transaction with a large footprint: declared, touched, gated, or of shards.
func large(i int) *sequencer.Intent {
	in := &sequencer.Intent{Tx: sequencer.TxID(fmt.Sprintf("t%d", i)), N: 1, Agent: "a", Incarnation: 1}
	list := scopes(i, 1+i%250)
	var wants []sequencer.Want
	for _, s := range list {
		wants = append(wants, sequencer.Want{Scope: s, Access: sequencer.WriteAccess})
	}
	switch i % 4 {
	case 0:
		in.Kind, in.Begin = sequencer.IntentBegin, &sequencer.Begin{Mode: sequencer.Ordered, May: wants}
	case 1:
		in.Kind, in.Touch = sequencer.IntentTouch, &sequencer.Touch{Wants: wants}
	case 2:
		in.Kind = sequencer.IntentSeal
		in.Seal = &sequencer.Seal{Effects: []sequencer.Effect{{Class: sequencer.ClassBufferable, Scopes: list}}}
	case 3:
		in.Kind = sequencer.IntentSeal
		in.Seal = &sequencer.Seal{Hook: true, ReadFrom: []sequencer.TxID{"t0", "t4"}}
		for j := range i % 60 {
			w := sequencer.ShardWrite{Scope: sequencer.Scope(fmt.Sprintf("shard:/%d/%d", i, j)), Content: make([]byte, 2_000)}
			in.Seal.Shards = append(in.Seal.Shards, w)
		}
	}
	return in
}

// pasts are intents of which each leaves something behind, by what.
func pasts() map[string]func(i int) *sequencer.Intent {
	id := func(length, i int) string { return fmt.Sprintf("%s%d", strings.Repeat("t", length), i) }
	return map[string]func(i int) *sequencer.Intent{
		"aborts": func(i int) *sequencer.Intent {
			return &sequencer.Intent{Kind: sequencer.IntentAbort, Tx: sequencer.TxID(id(500, i)), N: 1}
		},
		"reads of much": func(i int) *sequencer.Intent {
			s := &sequencer.Seal{Reads: []sequencer.Read{{Scope: "shard:/", View: sequencer.Seq(i + 1)}},
				Shards: []sequencer.ShardWrite{{Scope: sequencer.Scope(fmt.Sprintf("shard:/%d", i))}}}
			return &sequencer.Intent{Kind: sequencer.IntentSeal, Tx: sequencer.TxID(id(50, i)), N: 1, Seal: s}
		},
		"wide writes": func(i int) *sequencer.Intent {
			s := &sequencer.Seal{}
			for j := range 50 {
				scope := fmt.Sprintf("shard:/%s/%d/%d", strings.Repeat("s", 950), i, j)
				s.Shards = append(s.Shards, sequencer.ShardWrite{Scope: sequencer.Scope(scope)})
			}
			return &sequencer.Intent{Kind: sequencer.IntentSeal, Tx: sequencer.TxID(id(1, i)), N: 1, Seal: s}
		},
		"groups": func(i int) *sequencer.Intent {
			return &sequencer.Intent{Kind: sequencer.IntentSelect, Select: &sequencer.Select{Group: id(500, i), Winner: "w"}}
		},
		"joins": func(i int) *sequencer.Intent {
			return &sequencer.Intent{Kind: sequencer.IntentJoin, Join: &sequencer.Join{ID: id(500, i)}}
		},
		"catalogues": func(i int) *sequencer.Intent {
			tools := []sequencer.Tool{{Name: fmt.Sprint(i), Signature: strings.Repeat("x", 20_000)}}
			return &sequencer.Intent{Kind: sequencer.IntentRegister,
				Register: &sequencer.Register{Server: id(1, i), Generation: 1, Tools: tools}}
		},
	}
}

// TestRememberedBytesAreBounded: what is remembered of the past, of every kind, with long names.
func TestRememberedBytesAreBounded(t *testing.T) {
	for name, past := range pasts() {
		t.Run(name, func(t *testing.T) {
			h := newHostile(t)
			h.join("a")
			for i := range 3_000 {
				in := past(i)
				in.Agent, in.Incarnation, in.Base = "a", 1, h.fold.Seq()
				if in.Kind == sequencer.IntentJoin {
					in.Agent, in.Incarnation, in.Base = "b", 0, 0
				}
				h.step(in)
			}
			t.Logf("at most about %d bytes", h.peak)
		})
	}
}
