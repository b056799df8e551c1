package topology_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sequencer/hostile"
	"github.com/hence-dev/hence/sequencer/testsize"
	"github.com/hence-dev/hence/topology"
)

// hostileEnv says how many mutated records of each kind are tried.
const hostileEnv = "HENCE_HOSTILE"

// hostileRecords are tried of each kind where hostileEnv says nothing.
const hostileRecords = 5_000

// stateBytes is what the row of a workspace may have whose decisions are all acknowledged.
const stateBytes = 1 << 20

func hostileCount(tb testing.TB) int {
	tb.Helper()
	text := os.Getenv(hostileEnv)
	if text == "" {
		if testsize.Small() {
			return hostileRecords / 5
		}
		return hostileRecords
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		tb.Fatalf("%s: %v", hostileEnv, err)
	}
	return n
}

// hostileAt stands for the time of a record.
func hostileAt() time.Time { return time.Date(2026, 11, 21, 4, 5, 6, 789e6, time.UTC) }

// roundTrips holds that a record can be written, is within the limit, and is read back as it went.
func roundTrips[T any](what string, v *T, encode func(*T) ([]byte, error), decode func([]byte) (*T, error)) error {
	b, err := encode(v)
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", what, err)
	}
	if len(b) > topology.MaxRecordBytes {
		return fmt.Errorf("%s has %d bytes", what, len(b))
	}
	back, err := decode(b)
	if err != nil {
		return fmt.Errorf("%s cannot be read: %w", what, err)
	}
	again, err := encode(back)
	if err != nil {
		return fmt.Errorf("%s cannot be written again: %w", what, err)
	}
	if !bytes.Equal(b, again) {
		return fmt.Errorf("%s of %d bytes comes back as another one", what, len(b))
	}
	return nil
}

// travels holds that a decision can go every way that decisions go: NATS, hence.decisions, and hence.scopes beside
// processors of a former release.
func travels(o *sequencer.Outcome) error {
	name := fmt.Sprintf("decision %d, %s of %.40q,", o.Seq, o.Kind, o.Tx)
	if err := roundTrips(name+" on NATS", o, topology.EncodeOutcome, topology.DecodeOutcome); err != nil {
		return err
	}
	event := func(o *sequencer.Outcome) ([]byte, error) { return topology.EncodeCloudEvent(o, hostileAt(), "") }
	if err := roundTrips(name+" as a CloudEvent", o, event, topology.DecodeCloudEvent); err != nil {
		return err
	}
	for _, m := range topology.SplitByScope(o) {
		err := roundTrips(fmt.Sprintf("%s at %.40q", name, m.Scope), &m, topology.EncodeScopeMove, topology.DecodeScopeMove)
		if err != nil {
			return err
		}
	}
	return nil
}

// stays holds that the row of a workspace can be written, with the decisions that are not acknowledged and without
// them. The workspace goes on with the replica that is read back.
func (s *siege) stays() error {
	st := s.replica.State()
	if err := roundTrips(fmt.Sprintf("the row with %d decisions", len(st.Outbox)), &st, topology.EncodeReplica,
		topology.DecodeReplica); err != nil {
		return err
	}
	st.Outbox = nil
	b, err := topology.EncodeReplica(&st)
	if err != nil {
		return err
	}
	if len(b) > stateBytes {
		return fmt.Errorf("the row alone has %d bytes", len(b))
	}
	back, err := topology.DecodeReplica(b)
	if err != nil {
		return err
	}
	s.replica, err = sequencer.RestoreReplica(*back)
	return err
}

// tally is what a run over hostile records came to.
type tally struct {
	mu       sync.Mutex
	tried    map[sequencer.IntentKind]int
	decoded  map[sequencer.IntentKind]int
	codes    map[sequencer.Code]int
	outcomes map[sequencer.OutcomeKind]int
	foreign  int
}

func newTally() *tally {
	return &tally{tried: map[sequencer.IntentKind]int{}, decoded: map[sequencer.IntentKind]int{},
		codes: map[sequencer.Code]int{}, outcomes: map[sequencer.OutcomeKind]int{}}
}

func (y *tally) add(x *tally) {
	y.mu.Lock()
	defer y.mu.Unlock()
	sum(y.tried, x.tried)
	sum(y.decoded, x.decoded)
	sum(y.codes, x.codes)
	sum(y.outcomes, x.outcomes)
	y.foreign += x.foreign
}

func sum[K comparable](to, from map[K]int) {
	for k, n := range from {
		to[k] += n
	}
}

// siege is one workspace that hostile records are sent to.
type siege struct {
	*tally
	world   *hostile.World
	replica *sequencer.Replica
	twin    *sequencer.Replica // is given the same, and never restored
	offset  int64
	check   func(*siege, sequencer.Applied) error
}

func newSiege(seed uint64, logic uint32, check func(*siege, sequencer.Applied) error) *siege {
	return &siege{tally: newTally(), world: hostile.NewWorld(seed, logic), check: check,
		replica: sequencer.NewReplica("ws"), twin: sequencer.NewReplica("ws")}
}

// apply gives the workspace a record; nil is one that cannot be read. What is decided travels, and the row stays.
func (s *siege) apply(in *sequencer.Intent) error {
	s.replica.Acknowledged(s.replica.Fold().Seq())
	a, err := s.replica.Apply(s.offset, in)
	s.twin.Acknowledged(s.twin.Fold().Seq())
	b, _ := s.twin.Apply(s.offset, in)
	s.offset++
	if n := len(a.Outcomes); n != len(b.Outcomes) || n > 0 && a.Outcomes[n-1].Chain != b.Outcomes[n-1].Chain {
		return fmt.Errorf("a restored replica decides %d outcomes, one that was not %d, or others", n, len(b.Outcomes))
	}
	if errors.Is(err, sequencer.ErrUnknownLogic) {
		s.foreign++ // the workspace waits for a binary that knows it; here it goes on without the record
		return nil
	}
	if err != nil {
		return err
	}
	for i := range a.Outcomes {
		o := &a.Outcomes[i]
		s.world.See(o)
		s.outcomes[o.Kind]++
		if o.Kind == sequencer.OutcomeRefused {
			s.codes[o.Code]++
		}
	}
	if next, has := s.replica.NextTick(); has {
		s.world.Ticks(next)
	}
	return s.check(s, a)
}

// harmless is the property of logic 3.
func harmless(s *siege, a sequencer.Applied) error {
	for i := range a.Outcomes {
		if err := travels(&a.Outcomes[i]); err != nil {
			return err
		}
	}
	if len(a.Outcomes) > 20 || s.offset%16 == 0 {
		return s.stays()
	}
	return nil
}

// written is the property of older logics: encoders may refuse, but nothing panics.
func written(s *siege, a sequencer.Applied) error {
	for i := range a.Outcomes {
		o := &a.Outcomes[i]
		if b, err := topology.EncodeCloudEvent(o, hostileAt(), ""); err == nil {
			_, _ = topology.DecodeCloudEvent(b)
		}
		for _, m := range topology.SplitByScope(o) {
			_, _ = topology.EncodeScopeMove(&m)
		}
	}
	if len(a.Outcomes) > 20 || s.offset%16 == 0 {
		st := s.replica.State()
		_, _ = topology.EncodeReplica(&st)
	}
	return nil
}

// mutant makes a mutated record of a kind, as it would stand in the log.
func (s *siege) mutant(kind sequencer.IntentKind) []byte {
	in := s.world.Draw(kind)
	b, err := topology.EncodeIntent(in)
	whole := err == nil && s.world.Whole()
	twisted, err := topology.EncodeIntent(s.world.Twist(in))
	switch {
	case err != nil && whole, err != nil && b == nil:
		return nil // no encoder of ours takes it; other bytes are tried elsewhere
	case whole:
		return twisted
	case err != nil:
		return s.world.Garble(b, b)
	}
	return s.world.Garble(twisted, b)
}

// read applies a record as it stands in the log, and says whether it could be decoded.
func (s *siege) read(b []byte) (decoded bool, err error) {
	in, err := topology.DecodeIntent(b)
	if err != nil || len(b) > hostile.RecordBytes {
		return err == nil, s.apply(nil)
	}
	if err := s.apply(in); err != nil {
		return true, fmt.Errorf("%s: %w", in.Kind, err)
	}
	return true, nil
}

// attack sends mutated records of a kind, between others that make sense.
func (s *siege) attack(kind sequencer.IntentKind, records int) error {
	for _, in := range s.world.Founding() {
		if err := s.apply(in); err != nil {
			return err
		}
	}
	for range records {
		b, err := topology.EncodeIntent(s.world.Any())
		if err == nil {
			if _, err := s.read(b); err != nil {
				return err
			}
		}
		decoded, err := s.read(s.mutant(kind))
		if err != nil {
			return fmt.Errorf("a mutated %s: %w", kind, err)
		}
		if s.tried[kind]++; decoded {
			s.decoded[kind]++
		}
	}
	return nil
}

// siegeRecords are the mutated records of one workspace: after so many another one begins.
const siegeRecords = 250

// besiege sends records of every kind and returns what came of it.
func besiege(t *testing.T, logic uint32, records int, check func(*siege, sequencer.Applied) error) *tally {
	t.Helper()
	all := newTally()
	t.Run(fmt.Sprintf("logic %d", logic), func(t *testing.T) {
		for _, kind := range hostile.Kinds() {
			t.Run(kind.String(), func(t *testing.T) {
				t.Parallel()
				began := time.Now()
				for seed := uint64(0); int(seed)*siegeRecords < records; seed++ {
					s := newSiege(seed<<8|uint64(kind), logic, check)
					if err := s.attack(kind, min(siegeRecords, records-int(seed)*siegeRecords)); err != nil {
						t.Fatalf("seed %d, record %d: %v", seed, s.offset-1, err)
					}
					all.add(s.tally)
				}
				t.Logf("%v", time.Since(began))
			})
		}
	})
	return all
}

// TestHostileRecords: whatever is in the log, what is decided about it can be written and read, and so can the row.
func TestHostileRecords(t *testing.T) {
	began, mutated := time.Now(), 0
	all := besiege(t, sequencer.Logic, hostileCount(t), harmless)
	for _, k := range hostile.Kinds() {
		mutated += all.tried[k]
		t.Logf("%-10s %d mutated, %d decode", k, all.tried[k], all.decoded[k])
		if 5*all.decoded[k] < all.tried[k] && !t.Failed() {
			t.Errorf("less than a fifth of the mutated %s can be decoded", k)
		}
	}
	for _, c := range slices.Sorted(maps.Keys(all.codes)) {
		t.Logf("%-22s %d", c, all.codes[c])
	}
	t.Logf("outcomes %v; %d records of another logic", all.outcomes, all.foreign)
	for _, c := range hostile.RefusedCodes() {
		if all.codes[c] == 0 && !t.Failed() {
			t.Errorf("no record is refused with %s", c)
		}
	}
	testsize.Figure(t, began, "mutated intents that were folded, with what was decided written and read", mutated, 0,
		"make hostile")
}

// TestHostileRecordsOfOlderLogic: under the older logics what is decided may be too large to be written; that is an
// error, and no panic.
func TestHostileRecordsOfOlderLogic(t *testing.T) {
	for logic := uint32(1); logic < sequencer.Logic; logic++ {
		all := besiege(t, logic, hostileCount(t)/10, written)
		t.Logf("logic %d: %v", logic, all.outcomes)
	}
}
