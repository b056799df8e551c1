package tail

import (
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
)

// TestTailFrom holds what --since means.
func TestTailFrom(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for since, want := range map[string]start{
		"": {after: 0}, "0": {after: 0}, "120": {after: 120}, "10m": {at: now.Add(-10 * time.Minute)},
		"0s": {at: now}, "2026-01-31T12:30:00+01:00": {at: now.Add(-30 * time.Minute)},
	} {
		got, err := Filter{Since: since}.from(0, now)
		if err != nil || got.after != want.after || !got.at.Equal(want.at) {
			t.Errorf("--since %q: %+v, %v, want %+v", since, got, err, want)
		}
	}
	for since, want := range map[string]string{
		"yesterday": "give a seq", "-5m": "without a sign", "2026-01-31T12:00:01Z": "still to come", "-3": "give a seq",
		"12:00": "give a seq", "99999999999999999999": "give a seq",
	} {
		if _, err := (Filter{Since: since}).from(0, now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--since %q: %v, want %q", since, err, want)
		}
	}
	if _, err := (Filter{Since: "5m"}).from(3, now); err == nil {
		t.Error("--since and --after pass together")
	}
}

// TestTailLines holds what people read of each kind, whether it is shown by default, and in which colour.
func TestTailLines(t *testing.T) {
	noon := time.Date(2026, 1, 31, 12, 0, 0, 0, time.Local)
	at := noon.Add(-time.Hour)
	write := []sequencer.Write{{Scope: "shard:/a"}, {Scope: "shard:/b"}}
	for _, c := range []struct {
		o            sequencer.Outcome
		want, colour string
		shown        bool
	}{
		{sequencer.Outcome{Kind: sequencer.OutcomeCommitted, Tx: "a.1.1", Writes: write},
			"11:00:00      7  a          a.1.1            committed   wrote shard:/a shard:/b", "32", true},
		{sequencer.Outcome{Kind: sequencer.OutcomeAborted, Tx: "a.1.1", Code: "stale_read", Scope: "shard:/a",
			Moved: sequencer.Writer{Seq: 5, Tx: "b.2.1"}},
			"11:00:00      7  a          a.1.1            aborted     stale_read (shard:/a, moved at seq 5 by b.2.1)", "31",
			true},
		{sequencer.Outcome{Kind: sequencer.OutcomeRefused, Tx: "a.1.1", Intent: "a.1.1:touch:2", Code: "touch_bound"},
			"11:00:00      7  a          a.1.1            refused     a request to use a scope: touch_bound", "33", true},
		{sequencer.Outcome{Kind: sequencer.OutcomeRefused, Intent: "confirm:3:1", Code: "lease_expired"},
			"11:00:00      7  a                           refused     a request to renew its lease: lease_expired", "33",
			true},
		{sequencer.Outcome{Kind: sequencer.OutcomeSettled, Tx: "a.1.1", Residue: []sequencer.TxID{"a.1.1"}},
			"11:00:00      7  a          a.1.1            settled     with residue: not all of its effects are clean, " +
				"see hence residue ls", "33", true},
		{sequencer.Outcome{Kind: sequencer.OutcomeSettled, Tx: "a.1.1", Retraction: "a.1.1"},
			"11:00:00      7  a          a.1.1            taken back  with the retraction of a.1.1", "33", true},
		{sequencer.Outcome{Kind: sequencer.OutcomeSettled, Tx: "a.1.1"},
			"11:00:00      7  a          a.1.1            settled", "2", false},
		{sequencer.Outcome{Kind: sequencer.OutcomeGranted, Tx: "a.1.1", Added: []sequencer.Hold{{Scope: "res:/x"}}},
			"11:00:00      7  a          a.1.1            granted     res:/x", "2", false},
		{sequencer.Outcome{Kind: sequencer.OutcomeConfirmed}, "11:00:00      7  a                           lease holds",
			"2", false},
		{sequencer.Outcome{Kind: sequencer.OutcomeJoined}, "11:00:00      7  a                           joined", "", true},
	} {
		c.o.Seq, c.o.Agent = 7, "a"
		var plain, coloured strings.Builder
		l := lines{w: &plain, now: func() time.Time { return noon }}
		if err := l.write(&c.o, at); err != nil || plain.String() != c.want+"\n" {
			t.Errorf("%q, %v, want %q", plain.String(), err, c.want)
		}
		l.w, l.colour = &coloured, true
		if err := l.write(&c.o, at); err != nil {
			t.Fatal(err)
		}
		bare := strings.NewReplacer("\x1b["+c.colour+"m", "", "\x1b[0m", "").Replace(coloured.String())
		if coloured := coloured.String() != plain.String(); coloured != (c.colour != "") ||
			strings.Join(strings.Fields(bare), " ") != strings.Join(strings.Fields(plain.String()), " ") {
			t.Errorf("in colour %q, want code %q", bare, c.colour)
		}
		if got := (Filter{}).shows(&c.o); got != c.shown {
			t.Errorf("%s: shown by default: %v", c.want, got)
		}
		if !(Filter{All: true}).shows(&c.o) || !(Filter{Kind: c.o.Kind.String()}).shows(&c.o) {
			t.Errorf("%s: not shown to who asks", c.want)
		}
	}
	l := lines{now: func() time.Time { return noon }}
	for when, want := range map[time.Time]string{{}: "-", noon.AddDate(0, 0, -1): "2026-01-30 12:00:00"} {
		if got := l.clock(when); got != want {
			t.Errorf("%v is %q, want %q", when, got, want)
		}
	}
}

// TestTailCauses holds that a line says of a refusal what its record does.
func TestTailCauses(t *testing.T) {
	for _, c := range []struct {
		o    sequencer.Outcome
		want string
	}{
		{sequencer.Outcome{Code: "phantom_tool", Tool: "mail/send", Moved: sequencer.Writer{Seq: 5}, MovedAgent: "b"},
			"phantom_tool (mail/send, changed at seq 5 by the sidecar of b)"},
		{sequencer.Outcome{Code: "lost_branch", Moved: sequencer.Writer{Seq: 5, Tx: "b.2.1"}},
			"lost_branch (b.2.1 was chosen at seq 5)"},
		{sequencer.Outcome{Code: "too_old", Floor: 5}, "too_old (what is older than seq 5 is forgotten)"},
		{sequencer.Outcome{Code: "deadline"}, "deadline"},
	} {
		c.o.Kind = sequencer.OutcomeAborted
		var out strings.Builder
		l := lines{w: &out, now: time.Now}
		if err := l.write(&c.o, time.Time{}); err != nil || !strings.HasSuffix(out.String(), " "+c.want+"\n") {
			t.Errorf("%q, %v, want %q", out.String(), err, c.want)
		}
	}
}

// TestTailPrintsPlainly holds that a decision is one line, whatever its texts are.
func TestTailPrintsPlainly(t *testing.T) {
	const forged = "no: \x1b[2K\x1b[1A\x1b[2Ka.1.1  0  pay  clean\naccepted \u202egnp\u009b2K\x7f\u200b"
	var out strings.Builder
	l := lines{w: &out, now: time.Now}
	err := l.write(&sequencer.Outcome{Kind: sequencer.OutcomeRefused, Agent: forged, Tx: forged, Scope: forged,
		Code: forged, Intent: forged}, time.Time{})
	if text := strings.TrimSuffix(out.String(), "\n"); err != nil || text != gate.Plain(text) {
		t.Errorf("it prints %q, %v", text, err)
	}
}
