package gate_test

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
)

// marks draws what is known of one effect: each mark and each fact, alone and together, also such as no run comes to.
type marks struct {
	*rand.Rand
	often int // of 8, how often something is so
}

func (m *marks) is() bool { return m.IntN(8) < m.often }

func (m *marks) answer() *gate.Answer {
	if !m.is() {
		return nil
	}
	return &gate.Answer{Refused: m.is(), AboutKey: m.is(), Absent: m.is()}
}

func (m *marks) attempt() gate.Attempt {
	a := gate.Attempt{Unmade: m.is(), Kept: m.is(), Asks: m.is(), Most: m.IntN(4), Made: m.IntN(4), Tries: m.IntN(10),
		Late: m.is(), Flying: m.is(), Maybe: m.is(), Landed: m.is(), Asked: m.is(), Looked: m.is(),
		Heard: gate.Heard(m.IntN(5)), Sure: m.is(), No: m.answer()}
	if said := m.answer(); said != nil {
		a.Said = *said
	}
	return a
}

func (m *marks) progress() *gate.Progress {
	p := &gate.Progress{Committed: m.is(), Started: m.is(), Answer: m.answer(), GivenUp: m.is(), Undoing: m.is(),
		UndoDone: m.answer(), UndoLost: m.is(), Dropped: m.is(), Waited: m.IntN(8) > 0, Tries: m.IntN(3),
		UndoTries: m.IntN(3)}
	p.Tool.Class = sequencer.Class(m.IntN(int(sequencer.ClassIrreversible) + 1))
	p.Tool.Undo, p.Tool.Forbids, p.Tool.Keyed = m.is(), m.is(), m.is()
	if m.is() {
		p.Key = "key"
	}
	if m.is() {
		p.Unsent = "why"
	}
	return p
}

func (m *marks) facts(phase gate.Phase) gate.Facts {
	f := gate.Facts{Phase: phase, Behind: m.is(), Call: m.attempt(), Undo: m.attempt(), Orders: m.is(), Sought: m.is(),
		Again: m.is(), Lapsed: m.is()}
	f.Hand = gate.Hand{Result: sequencer.Result(m.IntN(5)), Back: m.is(), Force: m.is(), Undone: m.answer(),
		Keyed: m.is(), Kept: m.is()}
	if m.IntN(8) == 0 { // it decides by itself
		f.Found = m.answer()
	}
	return f
}

// TestNextIsPinned holds the whole rule as it was decided: of so many effects in each phase, how often it comes to
// what, for which reason, and the hash of all its plans. To change the rule, run it with HENCE_GATE_WRITE=1 and read
// which lines changed. What each clause is for is tested elsewhere; here none can be left out unnoticed.
func TestNextIsPinned(t *testing.T) {
	const each, file = 60_000, "testdata/next.txt"
	var out strings.Builder
	for _, phase := range []gate.Phase{gate.PhaseOpen, gate.PhaseReleased, gate.PhaseUndone, gate.PhaseResidue} {
		counts, hashes := map[string]int{}, map[string]hash.Hash{}
		m := &marks{Rand: rand.New(rand.NewPCG(1, uint64(phase)))}
		for range each {
			m.often = 1 + m.IntN(7)
			p, claim := m.progress(), gate.Claim(m.IntN(3))
			facts := m.facts(phase)
			plan := gate.Next(p, claim, facts)
			counts[fmt.Sprintf("%v for reason %d", plan.Do, plan.Why)]++
			key := claimName(claim)
			if hashes[key] == nil {
				hashes[key] = sha256.New()
			}
			fmt.Fprintf(hashes[key], "%+v %v %v\n", plan, plan.Over(), plan.Stops(phase))
			fmt.Fprintln(hashes[key], gate.MayHaveLeft(p, claim), gate.MayBeUndone(p, claim), gate.MayFly(p, claim),
				facts.Hand.ToUndo(p))
		}
		fmt.Fprintf(&out, "phase %d\n", phase)
		for _, what := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(&out, "  %6d %s\n", counts[what], what)
		}
		for _, claim := range slices.Sorted(maps.Keys(hashes)) {
			fmt.Fprintf(&out, "  %s %x\n", claim, hashes[claim].Sum(nil)[:12])
		}
	}
	if os.Getenv("HENCE_GATE_WRITE") == "1" {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != string(want) {
		t.Errorf("the rule decides otherwise than before. It was\n%s\nand is\n%s", want, got)
	}
}

func claimName(c gate.Claim) string { return [...]string{"own", "successor", "stranger"}[c] }
