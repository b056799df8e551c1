package recorded

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// A log of a workspace under the newest logic: what came since logic 3 is in it. TestRecordNewest made it; a later
// logic gets a log of its own beside it, and this one stays.
const (
	newestFolder = "testdata/newest"
	newestLogic  = 5
)

// TestNewestLog replays the log of logic 5.
func TestNewestLog(t *testing.T) {
	Keeps(t, newestFolder, fmt.Sprint("logic-", newestLogic))
}

// TestRecordNewest records that log; it does nothing without -record.
func TestRecordNewest(t *testing.T) {
	if !*record {
		t.Skip("nothing to do: -record writes the log of the newest logic again, which later versions must keep")
	}
	if sequencer.Logic != newestLogic {
		t.Fatalf("this code has logic %d: give its log a name of its own, and leave that of logic %d", sequencer.Logic,
			newestLogic)
	}
	for seed := range uint64(200) {
		n := &newest{composer: &composer{Rand: rand.New(rand.NewPCG(newestLogic, seed)), t: t, logic: newestLogic,
			replica: sequencer.NewReplica("w"), last: map[string]uint32{}, reached: map[string]int{}}}
		n.dress = n.newer
		n.random(2_500)
		if missing := n.lacks(); len(missing) > 0 {
			t.Logf("seed %d leads to none of %q", seed, missing)
			continue
		}
		leads, err := Replay("w", n.frames, 0)
		if err != nil {
			t.Fatal(err)
		}
		leads.Command = fmt.Sprint("TestRecordNewest with logic ", newestLogic)
		writeLog(t, newestFolder, fmt.Sprint("logic-", newestLogic), n.frames, leads)
		t.Logf("%d records, %d decisions, reached %v", leads.Records, leads.Seq, n.reached)
		return
	}
	t.Fatal("no seed leads to all that the log is for")
}

// newest adds to drawn intents what came since logic 3.
type newest struct{ *composer }

// newer has requests signed, writes that merge, calls that wait for a yes, and the words about these.
func (n *newest) newer(in *sequencer.Intent) {
	switch in.Kind {
	case sequencer.IntentTouch, sequencer.IntentSeal, sequencer.IntentAbort, sequencer.IntentRetract,
		sequencer.IntentVerdict:
		if n.once(2) {
			in.Signer = "key of " + in.Agent
		}
	}
	if in.Seal != nil {
		n.merges(in.Seal)
		for i := range in.Seal.Effects {
			if e := &in.Seal.Effects[i]; e.Class == sequencer.ClassIrreversible && n.once(2) {
				e.Approve, e.Args[0] = true, byte(i+1)
			}
		}
	}
	if in.Verdict != nil && n.once(2) {
		n.says(in)
	}
}

func (n *newest) merges(s *sequencer.Seal) {
	for i := range s.Shards {
		w := &s.Shards[i]
		switch {
		case w.Ref != nil || w.Absent || n.once(3):
		case n.once(2):
			w.Op, w.Content, w.Type, w.Expect, w.Former = sequencer.OpAdd, []byte(strconv.Itoa(n.IntN(90)-30)), "", nil, nil
		default:
			w.Op, w.Type, w.Expect, w.Former = sequencer.OpAppend, "", nil, nil
		}
	}
}

// says makes a verdict the word about a call that waits for a yes, where there is one.
func (n *newest) says(in *sequencer.Intent) {
	st := n.state()
	for i := range st.Txs {
		t := &st.Txs[i]
		if t.Seal == nil || t.Phase != sequencer.PhaseSealed {
			continue
		}
		for at, e := range t.Seal.Effects {
			if e.Approve {
				in.Tx = t.ID
				in.N = n.number(in)
				in.Verdict.Approvals = []sequencer.Approval{{Index: uint32(at), Yes: !n.once(4), By: "carla", Args: e.Args}}
				return
			}
		}
	}
}

// lacks is what the log is for and does not have.
func (n *newest) lacks() (missing []string) {
	seen := map[string]bool{}
	for _, f := range n.outcomes() {
		o := &f
		seen["signed "+o.Kind.String()] = seen["signed "+o.Kind.String()] || o.Signer != ""
		if o.Kind == sequencer.OutcomeCommitted && len(o.Approvals) > 0 {
			seen["committed with approvals"] = true
		}
		seen["aborted "+string(o.Code)] = true
		for _, w := range o.Shards {
			seen[fmt.Sprint("op ", w.Op)] = seen[fmt.Sprint("op ", w.Op)] || o.Kind == sequencer.OutcomeCommitted
			seen["removed"] = seen["removed"] || w.Removes != 0
		}
	}
	for _, what := range []string{"signed committed", "signed aborted", "signed waiting", "signed granted",
		"committed with approvals", fmt.Sprint("op ", sequencer.OpAdd), fmt.Sprint("op ", sequencer.OpAppend), "removed",
		"aborted " + string(sequencer.CodeDenied)} {
		if !seen[what] {
			missing = append(missing, what)
		}
	}
	return missing
}

// outcomes are what the log leads to.
func (n *newest) outcomes() (all []sequencer.Outcome) {
	replica := sequencer.NewReplica("w")
	for _, f := range n.frames {
		applied, err := replica.Apply(f.Offset, decoded(n.t, f))
		if err != nil {
			n.t.Fatal(err)
		}
		all = append(all, applied.Outcomes...)
	}
	return all
}

func decoded(t *testing.T, f Frame) *sequencer.Intent {
	t.Helper()
	in, err := topology.DecodeIntent(f.Value)
	if err != nil {
		t.Fatal(err)
	}
	return in
}
