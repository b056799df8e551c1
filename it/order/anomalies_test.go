package order

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology"
)

// TestAnomaliesFound makes a lost update through HTTP while "hence streams --anomalies" looks. Where it is only
// observed it is in the stream of anomalies, in the level and in the metrics, and these say what "hence export" and
// "hence check" say of the same workspace. Where it is refused, none of them has any.
func TestAnomaliesFound(t *testing.T) {
	const bound = 20 * time.Second
	servers, binary := harness.Start(t), harness.Binary(t)
	d := harness.Over(t, servers)
	member := d.StartMember(t, binary, "a", d.Workspace, "--anomalies")
	counted := 0.0 // over both workspaces
	for _, observe := range []bool{false, true} {
		t.Run(fmt.Sprintf("observe=%v", observe), func(t *testing.T) {
			d := d.In(fmt.Sprintf("%s-%v", d.Workspace, observe))
			agents := d.Sidecars(t, 2)
			last := loseUpdate(t, agents[0].Client, agents[1].Client, observe)
			var level *client.Level
			harness.Eventually(t, bound, func() (err error) {
				if level, err = agents[0].Client.Level(t.Context()); err == nil && level.Seq < last {
					err = fmt.Errorf("it is judged up to %d of %d", level.Seq, last)
				}
				return err
			})
			want, checked := exportedFindings(t, binary, servers, d.Workspace)
			lost := slices.ContainsFunc(want, func(f string) bool { return strings.HasPrefix(f, "lost-update certain=true") })
			if lost != observe || !observe && len(want) > 0 {
				t.Errorf("hence check finds %q", want)
			}
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			defer cancel()
			if got := anomaliesOf(ctx, t, agents[1], d.Workspace, len(want)); !slices.Equal(got, want) {
				t.Errorf("the stream has\n%s\nhence check\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if n := len(harness.ReadTopic(t, servers.Brokers, topology.TopicAnomalies, d.Workspace)); n != len(want) {
				t.Errorf("%d findings are published, %d are to be", n, len(want))
			}
			if level.Least != checked.Level.Least || level.Most != checked.Level.Most ||
				level.PointLeast != checked.Level.PointLeast || level.PointMost != checked.Level.PointMost ||
				level.Serializable != checked.Serializable || level.Operations != checked.Operations {
				t.Errorf("the level is %+v, hence check says %+v", level, checked)
			}
			for i, k := range level.Kinds {
				if c := checked.Kinds[i]; k.Kind != c.Kind || k.Certain != c.Certain || k.Possible != c.Possible {
					t.Errorf("the level counts %+v, hence check %+v", k, c)
				}
			}
			counted += float64(len(want))
			// On servers that others use, too, the member also counts what it finds in their workspaces.
			n, err := member.Count(t.Context(), "hence_anomalies_total")
			if err != nil || n < counted || n != counted && !harness.Real() {
				t.Errorf("the metrics count %v, %v; want %v", n, err, counted)
			}
			if most := map[bool]int{false: 4, true: 0}[observe]; level.Most != most {
				t.Errorf("the level is at most %d, want %d", level.Most, most)
			}
		})
	}
}

// loseUpdate lets ann and ben read one shard and write it, ann first, and returns the seq of the last decision.
func loseUpdate(t *testing.T, ann, ben *client.Client, observe bool) uint64 {
	t.Helper()
	ctx := t.Context()
	const shard = "shard:/stock/mugs"
	if _, err := ann.Put(ctx, shard, []byte("5"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	var both []*client.Tx
	for _, c := range []*client.Client{ann, ben} {
		tx, err := c.Begin(ctx, client.BeginOptions{Observe: observe})
		if err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, 10*time.Second, func() error { // ben's view may still be on its way
			s, err := tx.Read(ctx, shard)
			if err == nil && string(s.Content) != "5" {
				err = fmt.Errorf("it reads %q", s.Content)
			}
			return err
		})
		both = append(both, tx)
	}
	var last uint64
	for i, tx := range both {
		if err := tx.Write(ctx, shard, fmt.Append(nil, 4-i), client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		decision, err := tx.Seal(ctx)
		want := "committed "
		if i == 1 && !observe {
			want = "aborted stale_read"
		}
		if got := decision.State + " " + decision.Code; err != nil || got != want {
			t.Fatalf("transaction %d: %s, %v; want %s", i, got, err, want)
		}
		harness.Eventually(t, 10*time.Second, func() error { // a refusal may be said before it is in the log
			decision, err := tx.Status(ctx, 0)
			if last = decision.Seq; err == nil && last == 0 {
				err = fmt.Errorf("%s is not decided in the log", tx.ID())
			}
			return err
		})
	}
	return last
}

// checkedFile is what "hence check -o json" says of one file.
type checkedFile struct {
	Operations int `json:"operations"`
	Level      struct {
		Least      int    `json:"least"`
		Most       int    `json:"most"`
		PointLeast string `json:"point_least"`
		PointMost  string `json:"point_most"`
	} `json:"level"`
	Serializable bool `json:"serializable"`
	Kinds        []struct {
		Kind     string `json:"kind"`
		Certain  int    `json:"certain"`
		Possible int    `json:"possible"`
	} `json:"kinds"`
	Findings []struct {
		Kind    string `json:"kind"`
		Certain bool   `json:"certain"`
		Cell    string `json:"cell"`
		Records []struct {
			Txn string `json:"txn"`
		} `json:"records"`
	} `json:"findings"`
}

// exportedFindings are those that "hence check" finds in what "hence export" writes.
func exportedFindings(t *testing.T, binary string, servers *harness.Servers, workspace string) (found []string,
	file checkedFile) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "history.jsonl")
	out, err := exec.CommandContext(t.Context(), binary, "export", "--workspace", workspace, "--brokers",
		strings.Join(servers.Brokers, ","), "--nats", servers.NATS, "-o", path).CombinedOutput()
	if err != nil {
		t.Fatalf("hence export: %v\n%s", err, out)
	}
	check := exec.CommandContext(t.Context(), binary, "check", "-o", "json", path)
	out, _ = check.Output()
	var all []checkedFile
	if err := json.Unmarshal(out, &all); err != nil || len(all) != 1 {
		t.Fatalf("hence check: %v\n%s", err, out)
	}
	found = []string{}
	for _, f := range all[0].Findings {
		var txs []string
		for _, r := range f.Records {
			txs = append(txs, r.Txn)
		}
		found = append(found, fmt.Sprintf("%s certain=%v %s of %v", f.Kind, f.Certain, f.Cell, txs))
	}
	slices.Sort(found)
	return found, all[0]
}

// anomaliesOf are the first n findings of the stream of anomalies, from its first one on.
func anomaliesOf(ctx context.Context, t *testing.T, s *harness.Sidecar, workspace string, n int) []string {
	t.Helper()
	found := []string{}
	from := s.URL + "/v1/workspaces/" + workspace + "/anomalies?after=0"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.Token)
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("the stream of anomalies is answered %d", answer.StatusCode)
	}
	for lines := bufio.NewScanner(answer.Body); len(found) < n && lines.Scan(); {
		data, is := strings.CutPrefix(lines.Text(), "data: ")
		if !is {
			continue
		}
		a, err := topology.DecodeAnomaly([]byte(data))
		if err != nil {
			t.Fatalf("%v: %s", err, data)
		}
		var txs []string
		for _, o := range a.Operations {
			txs = append(txs, string(o.Tx))
		}
		found = append(found, fmt.Sprintf("%s certain=%v %s of %v", a.Kind, a.Certain, a.Cell, txs))
	}
	slices.Sort(found)
	return found
}
