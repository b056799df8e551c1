package export_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"os"
	"strconv"
	"testing"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/check"
	"github.com/hence-dev/hence/cmd/hence/internal/demo"
	"github.com/hence-dev/hence/cmd/hence/internal/export"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/embedded"
	"github.com/hence-dev/hence/streams/recorded"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/trace"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// demoRun runs the demo over servers of the test and returns its log.
func demoRun(t *testing.T, change func(*demo.Config)) *run {
	t.Helper()
	servers, err := embedded.Start(t.Context(), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = servers.Close() })
	cfg := demo.Config{Agents: number(t, "HENCE_IT_EXPORT_AGENTS", 4), Tasks: number(t, "HENCE_IT_EXPORT_TASKS", 3),
		Faults: float64(number(t, "HENCE_IT_EXPORT_FAULTS", 0)) / 100, Think: time.Millisecond, Seed: 1,
		Order: cmp.Or(os.Getenv("HENCE_IT_EXPORT_ORDER"), "optimistic"), Brokers: servers.Brokers,
		NATS: servers.NATS, Partitions: 2}
	change(&cfg)
	report, err := demo.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return opened(t, streams.Config{Brokers: servers.Brokers, NATS: servers.NATS, Dial: servers.Dial,
		Partitions: cfg.Partitions}, report.Workspace)
}

func opened(t *testing.T, cfg streams.Config, workspace string) *run {
	t.Helper()
	log, err := recorded.Open(t.Context(), cfg, workspace)
	if err != nil {
		t.Fatal(err)
	}
	return &run{log, cfg}
}

// run is the log of a demo, and where it is.
type run struct {
	*recorded.Log
	cfg streams.Config
}

// checked exports a log and checks it.
func checked(t *testing.T, log *run) (*check.Result, []byte) {
	t.Helper()
	var text bytes.Buffer
	result, err := export.Write(t.Context(), log.Log, &text, export.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := check.Read(t.Context(), "export", bytes.NewReader(text.Bytes()), check.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Operations != result.Operations {
		t.Errorf("%d operations are checked of %d", got.Operations, result.Operations)
	}
	return got, text.Bytes()
}

// number is a count of the environment, or a small one.
func number(t *testing.T, name string, small int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return small
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestEnforced: a run that was enforced, exported, has no anomaly and level L4. HENCE_IT_EXPORT_AGENTS, _TASKS (of
// each agent), _FAULTS (percent) and _ORDER make it larger; HENCE_IT_EXPORT_FILE keeps what was exported.
func TestEnforced(t *testing.T) {
	log := demoRun(t, func(*demo.Config) {})
	got, text := checked(t, log)
	if got.Certain != 0 || got.Possible != 0 || got.Level.Least != 4 || !got.Serializable {
		for i, f := range got.Findings {
			if i < 10 {
				t.Error(f.Sentence)
			}
		}
		t.Errorf("%d certain and %d possible findings, level %d to %d, serializable: %v, undecided %+v", got.Certain,
			got.Possible, got.Level.Least, got.Level.Most, got.Serializable, got.Undecided)
	}
	t.Logf("%d operations, %d aborted, undecided %+v", got.Operations, got.Aborted, got.Undecided)
	oneOf(t, log, text)
	shortened(t, log, got.Operations)
	if path := os.Getenv("HENCE_IT_EXPORT_FILE"); path != "" {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// oneOf exports single transactions: the one, and none that it has nothing to do with.
func oneOf(t *testing.T, log *run, text []byte) {
	t.Helper()
	all := records(t, text)
	last := all[len(all)-1]
	var part bytes.Buffer
	result, err := export.Write(t.Context(), log.Log, &part, export.Options{Tx: sequencer.TxID(last.Txn)})
	if err != nil {
		t.Fatal(err)
	}
	if result.Operations == 0 || result.Operations >= len(all) || !bytes.Contains(part.Bytes(), []byte(last.Txn)) {
		t.Errorf("of %s and those that it met there are %d operations, of %d", last.Txn, result.Operations, len(all))
	}
	mark := fmt.Appendf(nil, `,"excerpt":%q}`, last.Txn)
	for line := range bytes.Lines(part.Bytes()) {
		if bytes.Count(line, mark) != 1 {
			t.Errorf("the line does not say that it is of an excerpt: %s", line)
		}
		if line = bytes.Replace(line, mark, []byte("}"), 1); !bytes.Contains(text, line) {
			t.Errorf("it has another line than the whole: %s", line)
		}
	}
	if _, err := export.Write(t.Context(), log.Log, &part, export.Options{Tx: "nobody"}); err == nil {
		t.Error("a transaction that is not there was exported")
	}
	if _, err := export.Write(t.Context(), opened(t, log.cfg, "nothing").Log, &part, export.Options{}); err == nil {
		t.Error("a workspace that is not there was exported")
	}
}

// shortened deletes the beginning of the log: that is said, or what is left is exported, as it was asked for.
func shortened(t *testing.T, log *run, whole int) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(log.cfg.Brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	half := kadm.Offsets{}
	half.AddOffset(topology.TopicDecisions, log.Partition, log.DecisionsAt.End/2, -1)
	half.AddOffset(topology.TopicIntents, log.Partition, log.IntentsAt.End*3/4, -1)
	if _, err := kadm.NewClient(cl).DeleteRecords(t.Context(), half); err != nil {
		t.Fatal(err)
	}
	log = opened(t, log.cfg, log.Workspace)
	var text bytes.Buffer
	if _, err := export.Write(t.Context(), log.Log, &text, export.Options{}); !errors.Is(err, recorded.ErrGone) {
		t.Errorf("the whole of a log that was shortened: %v", err)
	}
	result, err := export.Write(t.Context(), log.Log, &text, export.Options{Oldest: true})
	if err != nil {
		t.Fatal(err)
	}
	if result.First < 2 || result.Operations == 0 || result.Operations >= whole || result.Unread == 0 {
		t.Errorf("what is left is %+v, of %d operations", result, whole)
	}
}

// TestObserved: a run that was only observed has the anomalies that enforcing would have refused: each operation that
// would have been refused is in a finding, and each finding is about one that would have been.
func TestObserved(t *testing.T) {
	log := demoRun(t, func(c *demo.Config) { c.Observe = true })
	got, text := checked(t, log)
	all := records(t, text)
	would := map[string]sequencer.Code{}
	err := log.Decisions(t.Context(), 0, func(d recorded.Decision) error {
		if d.Kind == sequencer.OutcomeCommitted && d.Would != "" && d.Would != sequencer.CodeWaiting {
			would[string(d.Tx)] = d.Would
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	found, kinds := map[string]bool{}, map[string]int{}
	for _, f := range got.Findings {
		reader := f.Records[0]
		kinds[f.Kind]++
		if f.Kind == "A1" {
			found[reader.Txn] = true
		}
		if f.Kind == "A1" && would[reader.Txn] == "" {
			t.Errorf("nothing would have been refused of %s: %s", reader.Txn, f.Sentence)
		}
	}
	codes, left := map[sequencer.Code]int{}, 0
	for tx, code := range would {
		codes[code]++
		if code != sequencer.CodeStaleRead || found[tx] {
			continue
		}
		// Hence refuses every overtaken reader; the definition of A1 leaves out two kinds.
		own, equal, others := overtaken(all, tx)
		if own+equal == 0 || others > 0 {
			t.Errorf("%s would have been refused as %s, and no A1 is about it: it was overtaken by its own agent %d times, "+
				"by equal values %d times, otherwise %d times", tx, code, own, equal, others)
		}
		left++
	}
	may := os.Getenv("HENCE_IT_EXPORT_ORDER") != "" // other orders leave less to refuse
	if !may && (got.Certain == 0 || codes[sequencer.CodeStaleRead] == 0) {
		t.Errorf("the run was too tame: %d findings, would have been refused: %v", got.Certain, codes)
	}
	t.Logf("%d operations: %v; would have been refused: %v, %d of them overtaken by their own agent or by equal values; "+
		"undecided %+v", got.Operations, kinds, codes, left, got.Undecided)
}

func records(t *testing.T, text []byte) (all []trace.Record) {
	t.Helper()
	for r := trace.NewReader(bytes.NewReader(text)); ; {
		one, err := r.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
}

// overtaken counts who wrote a cell of a transaction between its read and its commit: its own agent, others an equal
// value, and others another one.
func overtaken(all []trace.Record, tx string) (own, equal, others int) {
	at := slices.IndexFunc(all, func(r trace.Record) bool { return r.Txn == trace.ID(tx) })
	if at < 0 {
		return 0, 0, 0
	}
	reader := &all[at]
	for i := range all {
		for _, cell := range reader.ReadSet {
			read, apart := reader.ReadTimes[cell]
			if !apart {
				read = reader.ReadTime
			}
			switch w := &all[i]; {
			case i == at || !w.TookEffect() || w.WriteTime <= read || w.WriteTime >= reader.WriteTime ||
				!slices.Contains(w.WriteSet, cell):
			case w.Agent == reader.Agent:
				own++
			case w.WriteValues[cell] == reader.ReadValues[cell]:
				equal++
			default:
				others++
			}
		}
	}
	return own, equal, others
}
