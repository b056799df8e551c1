package check

import "testing"

// Each check finds what it is for in a small history, and nothing in one that is right.
func TestEffects(t *testing.T) {
	log := []Decision{{Seq: 1, Kind: "committed", Tx: "a"}, {Seq: 2, Kind: "committed", Tx: "b"},
		{Seq: 3, Kind: "aborted", Tx: "c"}}
	issued := []Issued{
		{Tx: "a", Index: 0, Key: "k0", Scopes: []string{"mail:/x"}, Held: true},
		{Tx: "a", Index: 1, Scopes: []string{"mail:/y"}, Held: true},
		{Tx: "b", Index: 0, Key: "k1", Scopes: []string{"mail:/x"}, Held: true},
		{Tx: "c", Index: 0, Key: "k2", Scopes: []string{"mail:/x"}, Held: true},
	}
	right := []Sent{{At: 1, Tx: "a", Key: "k0"}, {At: 2, Tx: "a", Index: 1}, {At: 3, Tx: "b", Key: "k1"}}
	for name, c := range map[string]struct {
		sent                       []Sent
		residue                    []Unclean
		leaks, dups, lost, ordered int
	}{
		"right":     {sent: right},
		"leak":      {sent: append(right[:3:3], Sent{At: 4, Tx: "c", Key: "k2"}), leaks: 1, ordered: 0},
		"duplicate": {sent: append(right[:3:3], Sent{At: 4, Tx: "a", Index: 1}, Sent{At: 5, Tx: "b", Key: "k1"}), dups: 2},
		"lost":      {sent: right[:1], lost: 2},
		"named":     {sent: right[:1], residue: []Unclean{{"a", 1, "unresolved"}, {"b", 0, "unresolved"}}},
		"issuance": {sent: []Sent{{At: 1, Tx: "a", Index: 1}, {At: 2, Tx: "a", Key: "k0"}, {At: 3, Tx: "b", Key: "k1"}},
			ordered: 1},
		"commit": {sent: []Sent{{At: 1, Tx: "b", Key: "k1"}, {At: 2, Tx: "a", Key: "k0"}, {At: 3, Tx: "a", Index: 1}},
			ordered: 1},
	} {
		e := &Effects{History: History{Decisions: log}, Issued: issued, Sent: c.sent, Residue: c.residue}
		for what, pair := range map[string][2]int{
			"leaks": {len(e.Leaks()), c.leaks}, "duplicates": {len(e.Duplicates()), c.dups},
			"lost": {len(e.Lost()), c.lost}, "orders": {len(e.Orders()), c.ordered},
		} {
			if pair[0] != pair[1] {
				t.Errorf("%s: %d %s, want %d", name, pair[0], what, pair[1])
			}
		}
	}
}
