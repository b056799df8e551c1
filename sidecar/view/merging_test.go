package view

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// stood is one write that stands in a shard, as the test knows it.
type stood struct {
	seq  sequencer.Seq
	op   sequencer.Op
	text string
}

// plainly is what writes come to, said as plainly as can be.
func plainly(list []stood) string {
	value := ""
	for _, w := range list {
		switch w.op {
		case sequencer.OpSet:
			value = w.text
		case sequencer.OpAppend:
			value += w.text
		case sequencer.OpAdd:
			if a, err := strconv.Atoi(value); err == nil || value == "" {
				b, _ := strconv.Atoi(w.text)
				value = strconv.Itoa(a + b)
			}
		case sequencer.OpUnion:
			lines := strings.Fields(value + "\n" + w.text)
			slices.Sort(lines)
			value = strings.Join(slices.Compact(lines), "\n") + "\n"
		}
	}
	return value
}

// past is a history of three shards: what was decided, and what stands after each decision.
type past struct {
	rng    *rand.Rand
	log    []*sequencer.Outcome
	stands map[sequencer.Scope][]stood
	after  []map[sequencer.Scope]string // by seq less one; a shard that is not there is in none
	bodies [][]byte                     // of contents by reference, by offset
}

func (p *past) scope(i int) sequencer.Scope { return sequencer.Scope(fmt.Sprint("shard:/m/", i)) }

// write is the next write of a shard.
func (p *past) write(i int, seq sequencer.Seq) sequencer.ShardWrite {
	scope, op := p.scope(i), sequencer.Op(1+i%3)
	stands := p.stands[scope]
	w := sequencer.ShardWrite{Scope: scope, Type: "text/x", Op: op, Content: []byte(strconv.Itoa(p.rng.IntN(60)) + "\n")}
	if op == sequencer.OpAdd {
		w.Content = w.Content[:len(w.Content)-1]
	}
	var deltas []int
	for at, s := range stands {
		if s.op != sequencer.OpSet {
			deltas = append(deltas, at)
		}
	}
	switch n := p.rng.IntN(40); {
	case n < 2:
		w.Op = sequencer.OpSet
		if n == 1 {
			p.bodies = append(p.bodies, w.Content)
			w.Ref = &sequencer.Ref{Offset: int64(len(p.bodies) - 1), Size: int64(len(w.Content))}
		}
		p.stands[scope] = append(stands, stood{seq, w.Op, string(w.Content)})
		if w.Ref != nil {
			w.Content = nil
		}
	case n < 10 && len(deltas) > 0:
		at := deltas[p.rng.IntN(len(deltas))]
		w = sequencer.ShardWrite{Scope: scope, Op: op, Removes: stands[at].seq}
		p.stands[scope] = slices.Delete(slices.Clone(stands), at, at+1)
	case n < 12 && len(stands) > 1:
		at := len(stands) - 2
		w = sequencer.ShardWrite{Scope: scope, Restored: stands[at].seq}
		p.stands[scope] = slices.Clone(stands[:at+1])
	default:
		p.stands[scope] = append(slices.Clip(stands), stood{seq, op, string(w.Content)})
	}
	return w
}

// decide adds a decision.
func (p *past) decide() {
	seq := sequencer.Seq(len(p.log) + 1)
	o := &sequencer.Outcome{Workspace: "w", Seq: seq, Kind: sequencer.OutcomeCommitted,
		Tx: sequencer.TxID(fmt.Sprint("t", seq))}
	if p.rng.IntN(80) == 0 {
		o.Shards = []sequencer.ShardWrite{{Scope: "shard:/m", Absent: true}}
		clear(p.stands)
	} else {
		w := p.write(p.rng.IntN(3), seq)
		if w.Removes != 0 || w.Restored != 0 {
			o.Kind, o.Retraction = sequencer.OutcomeSettled, o.Tx
		}
		o.Shards = []sequencer.ShardWrite{w}
	}
	if seq > 1 {
		o.Chain = o.ChainAfter(p.log[seq-2].Chain)
	} else {
		o.Chain = o.ChainAfter(sequencer.Hash{})
	}
	p.log = append(p.log, o)
	now := map[sequencer.Scope]string{}
	for scope, stands := range p.stands {
		if len(stands) > 0 {
			now[scope] = plainly(stands)
		}
	}
	p.after = append(p.after, now)
}

// rows are the table of scopes after a decision, as it is read from its records.
func (p *past) rows(t *testing.T, seq sequencer.Seq) []topology.ShardRow {
	t.Helper()
	rows, counts := map[sequencer.Scope]*topology.ShardRow{}, map[sequencer.Scope]*topology.WriteCount{}
	for i := range 3 {
		counts[p.scope(i)] = &topology.WriteCount{}
	}
	for _, o := range p.log[:seq] {
		w := &o.Shards[0]
		if w.Absent {
			for scope, count := range counts {
				rows[scope] = nil
				count.Add(o.Seq, o.Seq-1, true)
			}
			continue
		}
		if row := rows[w.Scope]; row.Merges(w) {
			rows[w.Scope] = row.Merge(o.Seq, w, nil, p.load)
		} else {
			rows[w.Scope] = &topology.ShardRow{Scope: w.Scope, Version: o.Seq, Type: w.Type, Content: w.Content, Ref: w.Ref,
				Restored: w.Restored}
		}
		counts[w.Scope].Add(o.Seq, o.Seq-1, rows[w.Scope] == nil)
	}
	var out []topology.ShardRow
	for scope, row := range rows {
		if row == nil {
			continue
		}
		b, err := topology.EncodeFrontierRow(&topology.FrontierRow{Workspace: "w", Scope: scope, Shard: row})
		if err != nil {
			t.Fatal(err)
		}
		back, err := topology.DecodeFrontierRow(b)
		if err != nil {
			t.Fatal(err)
		}
		back.Shard.Count = *counts[scope]
		out = append(out, *back.Shard)
	}
	return out
}

func (p *past) load(ref *sequencer.Ref) ([]byte, error) { return p.bodies[ref.Offset], nil }

// source is the log of a history, up to the seq that a view has.
type source struct {
	Source
	*past
	table sequencer.Seq
	gone  bool
}

func (s *source) Snapshot(context.Context, string) (*topology.Snapshot, error) {
	return &topology.Snapshot{Workspace: "w", Seq: s.table}, nil
}

func (s *source) Content(_ context.Context, _ string, ref sequencer.Ref) ([]byte, error) {
	return s.load(&ref)
}

func (s *source) Follow(_ context.Context, _ string, after sequencer.Seq,
	apply func(*sequencer.Outcome, streams.Way) error) error {
	if s.gone {
		return streams.ErrGone
	}
	for _, o := range s.log[after:] {
		if err := apply(o, streams.WayNATS); err != nil {
			return err
		}
	}
	return errors.New("the log ends")
}

// shows holds a view to what stands after the decision that it has reached, once all of it was fetched.
func (p *past) shows(t *testing.T, v *View, log *source) {
	t.Helper()
	p.fetched(t, v, log)
	for i := range 3 {
		got, at := v.Read(p.scope(i))
		want, there := p.after[at-1][p.scope(i)]
		if got.Ref != nil {
			got.Content, _ = p.load(got.Ref)
		}
		if got.Lacks || (got.Version != 0) != there || string(got.Content) != want {
			t.Fatalf("%s at %d: %q (version %d, lacks %v), want %q (%v)", p.scope(i), at, got.Content, got.Version,
				got.Lacks, want, there)
		}
	}
}

// fetched brings what a view lacks.
func (p *past) fetched(t *testing.T, v *View, log *source) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	say := slog.New(slog.NewTextHandler(io.Discard, nil))
	for len(v.allLacks())+len(v.allUnfolded()) > 0 {
		if err := v.fold(ctx, v.allUnfolded(), log, say); err != nil {
			t.Fatal(err)
		}
		if all := v.allLacks(); len(all) > 0 {
			if err := (&fetch{view: v, log: log, say: say, left: all}).pass(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestMergedViews lets views follow histories of deltas, contents, removals and resets from their beginning, from a
// table in the middle, and from one that is ahead of what it claims: all show what stands, and count the same writes.
func TestMergedViews(t *testing.T) {
	for seed := range uint64(60) {
		p := &past{rng: rand.New(rand.NewPCG(seed, 16)), stands: map[sequencer.Scope][]stood{}}
		for range 300 {
			p.decide()
		}
		first := New("w", 1<<20, 1<<20)
		first.begin(&topology.Snapshot{Workspace: "w"})
		late := map[*View]sequencer.Seq{}
		log := &source{past: p}
		for _, o := range p.log {
			if p.rng.IntN(60) == 0 {
				v := New("w", 1<<20, 1<<20)
				ahead := min(o.Seq+sequencer.Seq(p.rng.IntN(5)), sequencer.Seq(len(p.log)))
				v.begin(&topology.Snapshot{Workspace: "w", Seq: o.Seq - 1, Through: ahead, Chain: first.chain,
					Shards: p.rows(t, ahead)})
				late[v] = ahead
			}
			if _, err := first.advance(o); err != nil {
				t.Fatal(err)
			}
			p.shows(t, first, log)
			for v, through := range late {
				if _, err := v.advance(o); err != nil {
					t.Fatal(err)
				}
				if o.Seq < through {
					continue
				}
				p.shows(t, v, log)
				for i := range 3 {
					got, _ := v.Read(p.scope(i))
					want, _ := first.Read(p.scope(i))
					if got.Version != want.Version || got.Writes != want.Writes || got.carrier() != want.carrier() {
						t.Fatalf("seed %d, %s at %d: version %d, write %d, as of %d; want %d, %d, %d", seed, p.scope(i), o.Seq,
							got.Version, got.Writes, got.carrier(), want.Version, want.Writes, want.carrier())
					}
				}
			}
		}
	}
}

// TestMergedViewRefolds takes a delta out that the table no longer has one by one: the view works the shard out once
// more from the log, and says that it is lost where the log no longer has it.
func TestMergedViewRefolds(t *testing.T) {
	for _, gone := range []bool{false, true} {
		p := &past{rng: rand.New(rand.NewPCG(1, 1)), stands: map[sequencer.Scope][]stood{}}
		decide := func(w sequencer.ShardWrite) *sequencer.Outcome {
			o := &sequencer.Outcome{Workspace: "w", Seq: sequencer.Seq(len(p.log) + 1), Kind: sequencer.OutcomeCommitted}
			if w.Scope = p.scope(0); len(p.log) > 0 {
				o.Chain = p.log[len(p.log)-1].Chain
			}
			o.Shards = []sequencer.ShardWrite{w}
			o.Chain = o.ChainAfter(o.Chain)
			p.log = append(p.log, o)
			return o
		}
		for _, text := range []string{"a", "b", "c"} {
			decide(sequencer.ShardWrite{Op: sequencer.OpAppend, Content: []byte(text)})
		}
		v := New("w", 1<<20, 1<<20)
		v.begin(&topology.Snapshot{Workspace: "w", Seq: 3, Through: 3, Chain: p.log[2].Chain,
			Shards: []topology.ShardRow{{Scope: p.scope(0), Version: 3, Writes: []sequencer.Standing{
				{Seq: 2, Content: []byte("ab"), Folded: true}, {Seq: 3, Op: sequencer.OpAppend, Content: []byte("c")}}}}})
		if got, _ := v.Read(p.scope(0)); string(got.Content) != "abc" {
			t.Fatalf("%q", got.Content)
		}
		for _, w := range []sequencer.ShardWrite{{Op: sequencer.OpAppend, Removes: 1},
			{Op: sequencer.OpAppend, Content: []byte("d")}} {
			if _, err := v.advance(decide(w)); err != nil {
				t.Fatal(err)
			}
		}
		if got, _ := v.Read(p.scope(0)); !got.Lacks {
			t.Fatalf("%q is shown, and nobody has it", got.Content)
		}
		p.fetched(t, v, &source{past: p, table: 5, gone: gone})
		got, _ := v.Read(p.scope(0))
		if got.Lost != gone || !gone && string(got.Content) != "bcd" {
			t.Errorf("gone %v: %q, lost %v", gone, got.Content, got.Lost)
		}
	}
}

// notThere is a log that has lost a content which deltas rest on.
type notThere struct{ *source }

func (notThere) Content(context.Context, string, sequencer.Ref) ([]byte, error) {
	return nil, streams.ErrContent
}

// TestMergedViewHasNoContent follows a log whose references lead nowhere: such a shard is lost, and what else there is
// to fetch does not wait for it.
func TestMergedViewHasNoContent(t *testing.T) {
	p := &past{}
	v := New("w", 1<<20, 1<<20)
	v.begin(&topology.Snapshot{Workspace: "w"})
	o := &sequencer.Outcome{Workspace: "w", Seq: 1, Kind: sequencer.OutcomeCommitted, Shards: []sequencer.ShardWrite{
		{Scope: p.scope(0), Op: sequencer.OpAppend, Ref: &sequencer.Ref{Offset: 9, Size: 1}}}}
	o.Chain = o.ChainAfter(v.chain)
	if _, err := v.advance(o); err != nil {
		t.Fatal(err)
	}
	if got, _ := v.Read(p.scope(0)); !got.Lacks || got.Lost {
		t.Fatalf("before it was looked for: %+v", got)
	}
	log, say := notThere{&source{past: p}}, slog.New(slog.DiscardHandler)
	if err := v.fold(t.Context(), v.allUnfolded(), log, say); err != nil {
		t.Errorf("it is looked for again: %v", err)
	}
	if got, _ := v.Read(p.scope(0)); !got.Lost || len(v.allUnfolded()) > 0 {
		t.Errorf("it is not said to be lost: %+v", got)
	}
}

// TestMergedViewLacksForever follows a log that puts a content back which it has never had: the shard is lost, and
// says so, and the log is not read again and again.
func TestMergedViewLacksForever(t *testing.T) {
	p := &past{}
	v := New("w", 1<<20, 1<<20)
	v.begin(&topology.Snapshot{Workspace: "w"})
	for i, w := range []sequencer.ShardWrite{{Scope: p.scope(1), Content: []byte("x")},
		{Scope: p.scope(0), Op: sequencer.OpAppend, Content: []byte("a")}, {Scope: p.scope(0), Restored: 1}} {
		o := &sequencer.Outcome{Workspace: "w", Seq: sequencer.Seq(i + 1), Kind: sequencer.OutcomeCommitted,
			Shards: []sequencer.ShardWrite{w}}
		o.Chain = o.ChainAfter(v.chain)
		p.log = append(p.log, o)
		if _, err := v.advance(o); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := v.Read(p.scope(0)); !got.Lacks || got.Lost {
		t.Fatalf("before it was looked for: %+v", got)
	}
	p.fetched(t, v, &source{past: p})
	if got, _ := v.Read(p.scope(0)); !got.Lost {
		t.Errorf("it is not said to be lost: %+v", got)
	}
	written := &sequencer.Outcome{Workspace: "w", Seq: 4, Kind: sequencer.OutcomeCommitted,
		Shards: []sequencer.ShardWrite{{Scope: p.scope(0), Content: []byte("whole")}}}
	written.Chain = written.ChainAfter(v.chain)
	if _, err := v.advance(written); err != nil {
		t.Fatal(err)
	}
	if got, _ := v.Read(p.scope(0)); got.Lacks || string(got.Content) != "whole" {
		t.Errorf("after it is written: %+v", got)
	}
}
