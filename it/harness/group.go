package harness

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/streams"
)

// Published is the counter of what a member has published.
const Published = "hence_decisions_published_total"

// farewellBound is how long a member may take to leave its groups.
const farewellBound = 10 * time.Second

// Over is a workspace of its own on some servers without processors: the test starts those.
func Over(tb testing.TB, servers *Servers) *Deployment {
	tb.Helper()
	name := "it-" + strings.ToLower(rand.Text()[:10])
	return &Deployment{Servers: servers, Workspace: name, dir: tb.TempDir(), Config: streams.Config{
		Brokers: servers.Brokers, NATS: servers.NATS, Instance: name, Logger: Logger(tb)}}
}

// Member is one process of "hence streams", which comes back under its name.
type Member struct {
	*Process
	URL    string // of health and metrics
	binary string
	args   []string
}

// StartMember starts a member of a replica's groups and waits until it serves; Working says when it has its share.
func (d *Deployment) StartMember(tb testing.TB, binary, replica, instance string, args ...string) *Member {
	tb.Helper()
	m := &Member{binary: binary, args: append([]string{"streams", "--brokers", strings.Join(d.Brokers, ","), "--nats",
		d.NATS, "--listen", "127.0.0.1:0", "--output", "json", "--replica", replica, "--instance", instance}, args...)}
	m.Restart(tb)
	tb.Cleanup(func() { // with a farewell, else the group waits for it when the next test starts
		if m.Interrupt() == nil {
			_, _, _ = m.Wait(farewellBound) // what still runs then is killed
		}
	})
	return m
}

// Restart starts a member that has ended.
func (m *Member) Restart(tb testing.TB) {
	tb.Helper()
	var line []byte
	m.Process, line = SpawnServing(tb, readyBound, m.binary, m.args...)
	var ready struct{ Address string }
	if err := json.Unmarshal(line, &ready); err != nil {
		tb.Fatalf("%s: %v", line, err)
	}
	m.URL = ready.Address
}

// Count is the sum of one of its counters over the labels; zero when it does not have it yet.
func (m *Member) Count(ctx context.Context, name string) (sum float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.URL+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, fmt.Errorf("ask for metrics: %w", err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		label, value, ok := strings.Cut(lines.Text(), " ")
		if bare, _, _ := strings.Cut(label, "{"); !ok || bare != name {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", name, err)
		}
		sum += n
	}
	return sum, lines.Err()
}

// Publishing waits until it has published a number of decisions since it was started: it has its share then.
func (m *Member) Publishing(tb testing.TB, n float64) {
	tb.Helper()
	Eventually(tb, readyBound, func() error {
		done, err := m.Count(tb.Context(), Published)
		if err == nil && done < n {
			err = fmt.Errorf("it has published %v decisions, want %v\n%s", done, n, m.Words())
		}
		return err
	})
}

// CaughtUp waits until it is level with the log: on servers with a past a new group has all of that to compute first,
// and it cannot be relied on before. Lags are reported every second, so it has to stay level for longer.
func (m *Member) CaughtUp(tb testing.TB) {
	tb.Helper()
	m.Publishing(tb, 1)
	var level time.Time
	Eventually(tb, caughtUpBound, func() error {
		lag, err := m.Count(tb.Context(), "hence_input_lag_records")
		if err == nil && lag > 100 {
			err = fmt.Errorf("it is %v records behind\n%s", lag, m.Words())
		}
		if err != nil {
			level = time.Time{}
			return err
		}
		if level.IsZero() {
			level = time.Now()
		}
		if time.Since(level) < 3*time.Second {
			return errors.New("it has been level for less than three seconds")
		}
		return nil
	})
}

// caughtUpBound is how long a new group may compute the past of servers that a whole suite has used.
const caughtUpBound = 3 * time.Minute

// SomePublishing waits until one of a group's members publishes.
func SomePublishing(tb testing.TB, members []*Member) {
	tb.Helper()
	Eventually(tb, readyBound, func() error {
		words := ""
		for _, m := range members {
			if done, err := m.Count(tb.Context(), Published); err == nil && done > 0 {
				return nil
			}
			words += "\n" + m.Words()
		}
		return fmt.Errorf("none of %d members publishes%s", len(members), words)
	})
}
