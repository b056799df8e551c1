package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/client"
)

// TestTailFrom holds what --since means.
func TestTailFrom(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for since, want := range map[string]tailFrom{
		"": {after: 0}, "0": {after: 0}, "120": {after: 120}, "10m": {at: now.Add(-10 * time.Minute)},
		"0s": {at: now}, "2026-01-31T12:30:00+01:00": {at: now.Add(-30 * time.Minute)},
	} {
		c := tailCmd{tailFilter: tailFilter{Since: since}}
		got, err := c.from(now)
		if err != nil || got.after != want.after || !got.at.Equal(want.at) {
			t.Errorf("--since %q: %+v, %v, want %+v", since, got, err, want)
		}
	}
	for since, want := range map[string]string{
		"yesterday": "give a seq", "-5m": "without a sign", "2026-01-31T12:00:01Z": "still to come", "-3": "give a seq",
		"12:00": "give a seq", "99999999999999999999": "give a seq",
	} {
		c := tailCmd{tailFilter: tailFilter{Since: since}}
		if _, err := c.from(now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--since %q: %v, want %q", since, err, want)
		}
	}
	c := tailCmd{tailFilter: tailFilter{Since: "5m"}, After: 3}
	if _, err := c.from(now); err == nil {
		t.Error("--since and --after pass together")
	}
}

// TestTailBadFilters holds that a filter that can match nothing is an error that names its flag.
func TestTailBadFilters(t *testing.T) {
	for line, want := range map[string]string{
		"--scope nonsense": "--scope", "--reason Stale": "--reason", "--reason stale_reed": "did you mean stale_read?",
		"--reason read":       "did you mean stale_read?",
		"--reason touch_bond": "touch_bound", "--reason xyzzy": "docs/codes",
		"--kind comitted": "--kind", "--since soon": "--since",
	} {
		code, out, errs := hence(t, append([]string{"tail"}, strings.Fields(line)...)...)
		if code != ExitUsage || out != "" || !strings.Contains(errs, want) {
			t.Errorf("tail %s: exit code %d, %q, %q; want %q", line, code, out, errs, want)
		}
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
		lines := tailLines{w: &plain, now: func() time.Time { return noon }}
		if err := lines.write(&c.o, at); err != nil || plain.String() != c.want+"\n" {
			t.Errorf("%q, %v, want %q", plain.String(), err, c.want)
		}
		lines.w, lines.colour = &coloured, true
		if err := lines.write(&c.o, at); err != nil {
			t.Fatal(err)
		}
		bare := strings.NewReplacer("\x1b["+c.colour+"m", "", "\x1b[0m", "").Replace(coloured.String())
		if coloured := coloured.String() != plain.String(); coloured != (c.colour != "") ||
			strings.Join(strings.Fields(bare), " ") != strings.Join(strings.Fields(plain.String()), " ") {
			t.Errorf("in colour %q, want code %q", bare, c.colour)
		}
		if got := (tailFilter{}).shows(&c.o); got != c.shown {
			t.Errorf("%s: shown by default: %v", c.want, got)
		}
		if !(tailFilter{All: true}).shows(&c.o) || !(tailFilter{Kind: c.o.Kind.String()}).shows(&c.o) {
			t.Errorf("%s: not shown to who asks", c.want)
		}
	}
	lines := tailLines{now: func() time.Time { return noon }}
	for when, want := range map[time.Time]string{{}: "-", noon.AddDate(0, 0, -1): "2026-01-30 12:00:00"} {
		if got := lines.clock(when); got != want {
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
		lines := tailLines{w: &out, now: time.Now}
		if err := lines.write(&c.o, time.Time{}); err != nil || !strings.HasSuffix(out.String(), " "+c.want+"\n") {
			t.Errorf("%q, %v, want %q", out.String(), err, c.want)
		}
	}
}

// tails runs "hence tail -o json" with flags until it has shown some decisions.
func tails(t *testing.T, dev Dev, limit int, flags ...string) (all []Decision) {
	t.Helper()
	args := append([]string{"tail", "-o", "json", "--limit", fmt.Sprint(limit), "--nats", dev.NATS,
		"--brokers", strings.Join(dev.Brokers, ",")}, flags...)
	code, out, errs := hence(t, args...)
	if code != ExitOK {
		t.Fatalf("%v: exit code %d: %s", args, code, errs)
	}
	for line := range strings.Lines(out) {
		var d Decision
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, d)
	}
	return all
}

// TestTailFilters writes two shards, has a transaction refused, and looks at each with each filter. A filter that let
// too much pass would show an earlier decision than the one it is asked for.
func TestTailFilters(t *testing.T) {
	t.Setenv("HENCE_AGENT", "agent-1")
	dev := startDev(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c := client.New(dev.URL, dev.Token)
	defer c.Close()
	put := func(scope, text string) uint64 {
		t.Helper()
		d, err := c.Put(ctx, scope, []byte(text), client.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return d.Seq
	}
	stale, err := c.Begin(ctx, client.BeginOptions{})
	if err == nil {
		_, err = stale.Read(ctx, "shard:/a/1")
	}
	if err != nil {
		t.Fatal(err)
	}
	first := put("shard:/a/1", "x")
	second := put("shard:/b", "y")
	if d, err := stale.Seal(ctx); err != nil || d.Code != "stale_read" {
		t.Fatalf("a stale read is %+v, %v", d, err)
	}
	last := put("shard:/c", "z")
	for flags, want := range map[string]uint64{
		"--scope shard:/b":            second,
		"--scope shard:/*/1":          first,
		"--scope shard:/a":            first, // the folder above
		"--tx " + stale.ID():          second + 1,
		"--reason stale_read":         second + 1,
		"--kind aborted":              second + 1,
		fmt.Sprint("--since ", first): second,
		"--kind committed --since 1h": first,
		"--agent " + dev.Agent + " --kind committed --scope shard:/c": last,
	} {
		if got := tails(t, dev, 1, strings.Fields(flags)...); len(got) != 1 || got[0].Seq != want {
			t.Errorf("tail %s: %+v, want seq %d", flags, got, want)
		}
	}
}
