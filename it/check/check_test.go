package check

import (
	"fmt"
	"slices"
	"testing"
)

// good is a history in which nothing is wrong: two agents, x and y, times in which agent b starts after a has ended.
func good() *History {
	return &History{
		Attempts: []Attempt{
			{Agent: "a", Tx: "t1", State: Committed, Seq: 2, Start: 10, End: 20, Writes: []Write{{"x", "aa"}, {"y", "ab"}}},
			{Agent: "b", Tx: "t2", State: Committed, Seq: 3, Start: 30, End: 50,
				Reads: []Read{{"x", 2, 2, "aa"}}, Writes: []Write{{"x", "bb"}}},
			{Agent: "a", Tx: "t3", State: Aborted, Code: "stale_read", Seq: 4, Start: 31, End: 60,
				Reads: []Read{{"x", 2, 2, "aa"}}, Writes: []Write{{"x", "cc"}}},
			{Agent: "a", Tx: "t4", State: Committed, Seq: 5, Start: 61, End: 70,
				Reads: []Read{{"x", 3, 4, "bb"}, {"y", 2, 4, "ab"}}, Writes: []Write{{"y", "dd"}}},
			{Agent: "b", Tx: "t5", State: Unknown, Start: 71, Reads: []Read{{"y", 5, 5, "dd"}}, Writes: []Write{{"y", "ee"}}},
		},
		Decisions: []Decision{
			{Seq: 1, Kind: "joined", Agent: "a"},
			{Seq: 2, Kind: "committed", Tx: "t1", Writes: []string{"x", "y"}},
			{Seq: 3, Kind: "committed", Tx: "t2", Writes: []string{"x"}},
			{Seq: 4, Kind: "aborted", Tx: "t3", Code: "stale_read"},
			{Seq: 5, Kind: "committed", Tx: "t4", Writes: []string{"y"}},
			{Seq: 6, Kind: "committed", Tx: "t5", Writes: []string{"y"}},
		},
	}
}

func TestGoodHistory(t *testing.T) {
	if found := good().All(); len(found) > 0 {
		t.Fatalf("a good history has violations: %v", found)
	}
}

// TestEveryCheckFails seeds one violation for each check and holds that this check finds it.
func TestEveryCheckFails(t *testing.T) {
	for _, c := range []struct {
		check string
		spoil func(h *History)
	}{
		{"contiguous", func(h *History) { h.Decisions = slices.Delete(h.Decisions, 0, 1) }},
		{"contiguous", func(h *History) { h.Decisions[2].Seq = 2 }},
		{"contiguous", func(h *History) {
			h.Decisions = append(h.Decisions, Decision{Seq: 7, Kind: "aborted", Tx: "t1"})
		}},
		{"lost_acknowledged", func(h *History) { h.Decisions[1].Kind = "settled" }},
		{"lost_acknowledged", func(h *History) { h.Decisions[2].Kind = "aborted" }},
		{"lost_acknowledged", func(h *History) { h.Attempts[0].Seq = 3 }},
		{"unresolved", func(h *History) { h.Decisions[5].Kind = "begun" }},
		{"unresolved", func(h *History) { h.Decisions[5].Kind, h.Decisions[5].Code = "refused", "touch_bound" }},
		{"unfounded", func(h *History) { h.Attempts[3].Reads[0].Version = 4 }},
		{"unfounded", func(h *History) { h.Attempts[3].Reads[0].SHA256 = "aa" }},
		{"unfounded", func(h *History) { h.Attempts[3].Reads[0].View = 1 }},
		{"overtaken", func(h *History) { h.Attempts[3].Reads[0].Version = 2 }},
		{"overtaken", func(h *History) { h.Attempts[4].Reads[0].Version = 2 }},
		{"cycle", lostUpdate},
		{"cycle", writeSkew},
		{"agent_order", func(h *History) { swapSeqs(h, 0, 3) }},
		{"real_time", func(h *History) { swapSeqs(h, 0, 1) }},
		{"register", func(h *History) { h.Attempts[3].Reads[0] = Read{"x", 2, 2, "aa"} }},
		{"register", func(h *History) { h.Attempts[1].Start, h.Attempts[1].End = 200, 210 }},
		{"register", shortLived},
	} {
		h := good()
		c.spoil(h)
		found := h.All()
		if !slices.ContainsFunc(found, func(v Violation) bool { return v.Check == c.check }) {
			t.Errorf("%s does not find what was seeded for it; found %v", c.check, found)
		}
	}
}

// A transaction that the log let not in at all is not one that it owes a decision.
func TestRefusedIsNotUnresolved(t *testing.T) {
	for _, d := range []Decision{
		{Code: "lease_expired", Intent: "t5:seal:1"}, // its sidecar had stopped
		{Code: "too_old", Intent: "t5:touch:1"},
		{Code: "unknown_intent", Intent: "t5:seal:1"},
		{Code: "limit", Intent: "t5:begin:0"},
	} {
		h := good()
		d.Seq, d.Kind, d.Tx = 6, "refused", "t5"
		h.Decisions[5] = d
		if found := h.All(); len(found) > 0 {
			t.Errorf("refused with %s: %v", d.Code, found)
		}
		h.Decisions = slices.Insert(h.Decisions, 5, Decision{Seq: 6, Kind: "begun", Tx: "t5"})
		h.Decisions[6].Seq = 7
		if found := h.Unresolved(); len(found) != 1 {
			t.Errorf("begun, then refused with %s: %v", d.Code, found)
		}
	}
}

// lostUpdate: t3 commits on the same x that t2 had read and overwritten.
func lostUpdate(h *History) {
	h.Attempts[2].State, h.Decisions[3].Kind, h.Decisions[3].Code = Committed, "committed", ""
}

// writeSkew: two transactions read x and y at the same view, one writes x, one writes y.
func writeSkew(h *History) {
	both := []Read{{"x", 3, 6, "bb"}, {"y", 6, 6, "ee"}}
	h.Attempts = append(h.Attempts,
		Attempt{Agent: "a", Tx: "s1", State: Committed, Seq: 7, Reads: both, Writes: []Write{{"x", "s1"}}},
		Attempt{Agent: "b", Tx: "s2", State: Committed, Seq: 8, Reads: both, Writes: []Write{{"y", "s2"}}})
	h.Decisions = append(h.Decisions, Decision{Seq: 7, Kind: "committed", Tx: "s1", Writes: []string{"x"}},
		Decision{Seq: 8, Kind: "committed", Tx: "s2", Writes: []string{"y"}})
}

// swapSeqs gives two attempts each other's place in the log.
func swapSeqs(h *History, i, j int) {
	a, b := &h.Attempts[i], &h.Attempts[j]
	a.Seq, b.Seq = b.Seq, a.Seq
	for k := range h.Decisions {
		switch d := &h.Decisions[k]; d.Tx {
		case a.Tx:
			d.Tx = b.Tx
		case b.Tx:
			d.Tx = a.Tx
		}
	}
}

// shortLived: a write begins and ends while another value is read before and after it.
func shortLived(h *History) {
	add := func(tx string, seq uint64, start, end int64, reads []Read, writes []Write) {
		h.Attempts = append(h.Attempts, Attempt{Agent: tx, Tx: tx, State: Committed, Seq: seq, Start: start, End: end,
			Reads: reads, Writes: writes})
		h.Decisions = append(h.Decisions, Decision{Seq: seq, Kind: "committed", Tx: tx})
	}
	add("w1", 7, 100, 110, nil, []Write{{"z", "w1"}})
	add("w2", 8, 130, 140, nil, []Write{{"z", "w2"}})
	add("r1", 9, 150, 160, []Read{{"z", 7, 7, "w1"}}, nil)
}

func TestSameChain(t *testing.T) {
	observers := map[string]map[uint64]string{
		"early": {1: "a", 2: "b", 3: "c"},
		"late":  {2: "b", 3: "c", 4: "d"},
	}
	if shared, found := SameChain(observers); shared != 2 || len(found) > 0 {
		t.Errorf("shared %d seqs and found %v, want 2 and nothing", shared, found)
	}
	observers["late"][3] = "x"
	if _, found := SameChain(observers); len(found) != 1 {
		t.Errorf("found %v in two chains that differ at seq 3", found)
	}
}

// TestLongChain holds that a history of one long chain of dependencies is walked without recursion and has no cycle.
func TestLongChain(t *testing.T) {
	const n = 50_000
	h := &History{}
	for i := uint64(1); i <= n; i++ {
		tx := fmt.Sprint(i)
		h.Attempts = append(h.Attempts, Attempt{Tx: tx, State: Committed, Seq: i, Start: int64(i) * 10, End: int64(i)*10 + 5,
			Reads: []Read{{Scope: "x", Version: i - 1, View: i - 1}}, Writes: []Write{{Scope: "x"}}})
		h.Decisions = append(h.Decisions, Decision{Seq: i, Kind: "committed", Tx: tx})
	}
	if found := h.All(); len(found) > 0 {
		t.Fatalf("found %v", found[0])
	}
}
