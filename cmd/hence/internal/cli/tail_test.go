package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/tail"
	"github.com/hence-dev/hence/sidecar/client"
)

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

// tails runs "hence tail -o json" with flags until it has shown some decisions.
func tails(t *testing.T, dev Dev, limit int, flags ...string) (all []tail.Decision) {
	t.Helper()
	args := append([]string{"tail", "-o", "json", "--limit", fmt.Sprint(limit), "--nats", dev.NATS,
		"--brokers", strings.Join(dev.Brokers, ",")}, flags...)
	code, out, errs := hence(t, args...)
	if code != ExitOK {
		t.Fatalf("%v: exit code %d: %s", args, code, errs)
	}
	for line := range strings.Lines(out) {
		var d tail.Decision
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
