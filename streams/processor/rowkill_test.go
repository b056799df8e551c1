package processor_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hence-dev/hence/sequencer/testsize"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/streams/processor"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/pause"
)

// envEnding makes this test binary run the processors, until the ending that it describes in JSON.
const envEnding = "HENCE_TEST_ENDING"

// envEndings is how many endings TestRowsAfterEveryEnd goes through.
const envEndings = "HENCE_TEST_ENDINGS"

// ending is where a process of processors comes to its end.
type ending struct {
	Brokers []string
	NATS    string
	Table   string
	Place   string // one of lazy.go's, or one of those below
	Nth     int64  // time that the place is met

	due, met, sent, kept atomic.Int64
	late                 atomic.Int64 // what will be sent with the first rows behind the halt; zero: it has not halted
}

// Places beside those of lazy.go.
const (
	endCommitted = "committed" // rows were kept, and then offsets were committed
	endRefused   = "refused"   // Kafka takes no row of the table for a while; the test ends the process
	endLate      = "late"      // the process stands still before it writes rows, until its heir has written
)

// child runs the processors until their end, if this process was started for that.
func child() bool {
	var e ending
	text := os.Getenv(envEnding)
	if text == "" {
		return false
	}
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cfg := streams.Config{Brokers: e.Brokers, NATS: e.NATS, Partitions: 2, Instance: "one", MemoryStream: true}
	cfg.Faults.Rows = func(table, place string) {
		if table == e.Table {
			e.meet(ctx, place)
		}
	}
	if err := processor.Run(ctx, cfg); err != nil {
		panic(err)
	}
	return true
}

// meet is told each place that the process comes to.
func (e *ending) meet(ctx context.Context, place string) {
	switch place {
	case "due":
		if e.due.Add(1) == 1 {
			fmt.Println(saysRunning)
		}
	case "sent":
		e.sent.Add(1)
	case "kept":
		e.kept.Add(1)
	}
	if late := e.late.Load(); late > 0 && e.sent.Load() >= late && e.kept.Load() >= late {
		fmt.Println(saysWritten)
	}
	if place == e.hook() && e.met.Add(1) == e.Nth {
		e.end(ctx)
	}
}

// What the process says on its standard output.
const (
	saysRunning = "running" // it has rows to write
	saysHalted  = "halted"  // it stands still before it writes some
	saysWritten = "written" // it has written them, after it was let go on
)

// hook is the place of lazy.go at which it begins.
func (e *ending) hook() string {
	switch e.Place {
	case endCommitted:
		return "kept"
	case endLate:
		return "due"
	}
	return e.Place
}

// end ends the process as if the power had gone, or halts it.
func (e *ending) end(ctx context.Context) {
	switch e.Place {
	case endLate:
		e.late.Store(e.sent.Load() + 1)
		goesOn := make(chan os.Signal, 1)
		signal.Notify(goesOn, syscall.SIGCONT)
		fmt.Println(saysHalted)
		e.signal(syscall.SIGSTOP)
		<-goesOn // a busy machine may stop the other threads first
	case endCommitted:
		go func() { // the producer's goroutine goes on, as it must for the offsets to be let go
			cl, err := kgo.NewClient(kgo.SeedBrokers(e.Brokers...))
			if err != nil {
				panic(err)
			}
			group := e.Table[:len(e.Table)-len("-table")]
			for from := committed(ctx, cl, group); committed(ctx, cl, group) == from; {
				_ = pause.Sleep(ctx, 5*time.Millisecond)
			}
			e.signal(syscall.SIGKILL)
		}()
	default:
		e.signal(syscall.SIGKILL)
		<-ctx.Done() // the signal is on its way
	}
}

func (e *ending) signal(s syscall.Signal) {
	if err := syscall.Kill(os.Getpid(), s); err != nil {
		panic(err)
	}
}

// committed sums the offsets that a group has committed.
func committed(ctx context.Context, cl *kgo.Client, group string) (sum int64) {
	offsets, err := kadm.NewClient(cl).FetchOffsets(ctx, group)
	if err != nil {
		return 0
	}
	offsets.Each(func(o kadm.OffsetResponse) { sum += max(o.At, 0) })
	return sum
}

// endings is a world whose processors end again and again, each time in another way.
type endings struct {
	*teststreams.World
	cl     *kgo.Client
	client *streams.Client
	views  map[string]*teststreams.View
	agents []*teststreams.Agent
	rng    *rand.Rand
	late   int // rows that were written behind newer ones
}

// Processors that end anywhere between a record and the commit of its offset, or write when they have an heir, leave
// rows from which the next one makes what one reading of the whole log makes, byte for byte. What a late writer has
// left is put right by the next owner: what an owner looks for once an hour is not due here.
func TestRowsAfterEveryEnd(t *testing.T) {
	t.Parallel()
	ends := 2 * len(places)
	if text := os.Getenv(envEndings); text != "" {
		var err error
		if ends, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	} else if testing.Short() { // under the race detector the first places do
		ends = len(places) / 2
	} else if testsize.Small() {
		ends = len(places)
	}
	for from := 0; from < ends; from += perWorld {
		t.Run(fmt.Sprint("from ", from), func(t *testing.T) { endAgainAndAgain(t, from, min(from+perWorld, ends)) })
	}
}

// perWorld is how many ends one log is for: it is read from its beginning after each.
const perWorld = 24

// places are those at which processes end, one after the other.
var places = []string{"due", "sent", "kept", endCommitted, endRefused, "given up", "written", endLate}

// endAgainAndAgain goes through the ends of some numbers, and at last lets both tables be made again.
func endAgainAndAgain(t *testing.T, from, to int) {
	t.Helper()
	w := &endings{World: teststreams.New(t), views: make(map[string]*teststreams.View),
		rng: rand.New(rand.NewPCG(uint64(from), 2))}
	w.cl, w.client = w.Kafka(), w.Dial(w.Cfg)
	for _, name := range []string{"shop", "bank"} {
		w.views[name] = w.Follow(w.client, name)
	}
	w.heir("the first", nil)
	for i := from; i < to; i++ {
		group := []string{topology.GroupClosure, topology.GroupFrontier}[(i+i/len(places))%2]
		e := &ending{Brokers: w.Cfg.Brokers, NATS: w.Cfg.NATS, Table: topology.TableOf(group),
			Place: places[i%len(places)], Nth: 1 + w.rng.Int64N(2)} // each has two partitions to give up
		w.round(e)
	}
	t.Logf("%d ends: %d and %d rows equal those of one reading; %d rows were written late", to-from,
		len(w.table(topology.GroupClosure)), len(w.table(topology.GroupFrontier)), w.late)
	if w.late == 0 && to-from >= len(places) {
		t.Error("no row was written behind its heir's")
	}
	for _, group := range []string{topology.GroupClosure, topology.GroupFrontier} {
		w.ForgetGroup(group, "")
	}
	if err := streams.EnsureTopics(t.Context(), w.Cfg); err != nil {
		t.Fatal(err)
	}
	w.heir("all rows were made again", nil)
}

// round lets agents work while a process comes to its end, then lets an heir go on, and compares.
func (w *endings) round(e *ending) {
	w.T.Helper()
	name := fmt.Sprintf("%s, %s at its time %d", e.Table, e.Place, e.Nth)
	text, err := json.Marshal(e)
	if err != nil {
		w.T.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), envEnding+"="+string(text)), os.Stderr
	says, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		w.T.Fatal(err)
	}
	c := &childProcess{cmd: cmd, ended: make(chan error, 1), running: make(chan struct{}), halted: make(chan struct{})}
	go c.listen(says)
	defer func() { _ = cmd.Process.Kill() }() // fails where it has ended
	w.end(e, c)
	if e.Place != endLate {
		w.heir(name, nil)
		return
	}
	w.heir(name, func() {
		before := w.ends(e.Table)
		if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
			w.T.Fatal(err)
		}
		if err := <-c.ended; err != nil {
			w.T.Fatalf("%s: %v", name, err)
		}
		w.late += w.overwritten(e.Table, before)
	})
	w.heir(name+", and its heir ended", nil)
}

// childProcess is the processors that come to an end.
type childProcess struct {
	cmd             *exec.Cmd
	ended           chan error // nil: it was killed
	running, halted chan struct{}
}

// listen waits for the process's end, and ends it itself once it has written late.
func (c *childProcess) listen(says io.Reader) {
	for lines := bufio.NewScanner(says); lines.Scan(); {
		switch lines.Text() {
		case saysRunning:
			close(c.running)
		case saysHalted:
			close(c.halted)
		case saysWritten:
			_ = c.cmd.Process.Kill()
		}
	}
	err := c.cmd.Wait()
	if c.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		err = nil
	} else {
		err = fmt.Errorf("the process was not killed: %w", err)
	}
	c.ended <- err
}

// end works until the process has come to its end, or to a halt.
func (w *endings) end(e *ending, c *childProcess) {
	w.T.Helper()
	deadline := time.After(teststreams.Patience)
	if e.Place == endRefused {
		fault := w.Servers.Kafka().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: e.Table,
			Err: kerr.NotLeaderForPartition, Count: -1})
		defer fault.Remove()
	}
	for since := 0; ; {
		for _, a := range w.agents {
			work(a, w.rng, 1+w.rng.IntN(3))
		}
		select {
		case <-c.running:
			since++
		default:
		}
		switch {
		case (e.Place == "given up" || e.Place == "written") && since == 2:
			_ = c.cmd.Process.Signal(syscall.SIGTERM) // a graceful end begins, and does not come to its end
		case e.Place == endRefused && since == 8: // rows were due, and offsets could have been committed
			_ = c.cmd.Process.Kill()
		}
		select {
		case err := <-c.ended:
			if err != nil {
				w.T.Fatalf("%s %s: %v", e.Table, e.Place, err)
			}
			return
		case <-c.halted:
			return
		case <-deadline:
			w.T.Fatalf("%s is not met at %s", e.Place, e.Table)
		case <-time.After(time.Duration(w.rng.IntN(250)) * time.Millisecond):
		}
	}
}

// heir runs the processors in this process until both tables have all of the log, and compares these with one reading
// of the log. With meanwhile it calls that once there are rows of the heir, and compares nothing: late rows are at the
// end of the table until the next owner has read it.
func (w *endings) heir(after string, meanwhile func()) {
	w.T.Helper()
	for {
		stop := w.Run(w.Cfg)
		if w.join(); meanwhile != nil {
			for _, a := range w.agents {
				work(a, w.rng, 2)
			}
			w.join()
		}
		w.Until("rows of all decisions and events", w.caughtUp)
		if meanwhile != nil {
			meanwhile()
			stop()
			return
		}
		if stop(); w.caughtUp() { // else a lease ended in between
			break
		}
	}
	rows, err := processor.RebuiltRows(w.Records(topology.TopicEvents), w.Records(topology.TopicDecisions))
	if err != nil {
		w.T.Fatal(err)
	}
	for group, want := range rows {
		w.equal(after, group, w.table(group), want)
	}
}

// join lets new agents join, since the former ones' leases may end. All that was appended before is decided then.
func (w *endings) join() {
	w.T.Helper()
	w.agents = w.agents[:0]
	for name, v := range w.views {
		w.agents = append(w.agents, w.Join(w.client, v, name, fmt.Sprintf("ann-%d", w.rng.Uint32())))
	}
}

// caughtUp says whether both groups have committed all that there is.
func (w *endings) caughtUp() bool {
	ends, err := kadm.NewClient(w.cl).ListEndOffsets(w.T.Context(), topology.TopicDecisions, topology.TopicEvents)
	if err != nil {
		return false
	}
	decisions, all := int64(0), int64(0)
	ends.Each(func(o kadm.ListedOffset) {
		if all += o.Offset; o.Topic == topology.TopicDecisions {
			decisions += o.Offset
		}
	})
	return committed(w.T.Context(), w.cl, topology.GroupFrontier) == decisions &&
		committed(w.T.Context(), w.cl, topology.GroupClosure) == all
}

// ends is the last record of each key of a table.
func (w *endings) ends(table string) map[string]*kgo.Record {
	w.T.Helper()
	ends := make(map[string]*kgo.Record)
	for _, r := range w.Records(table) {
		ends[string(r.Key)] = r
	}
	return ends
}

// overwritten counts the keys that ended with another row before.
func (w *endings) overwritten(table string, before map[string]*kgo.Record) (n int) {
	w.T.Helper()
	for key, r := range w.ends(table) {
		if had := before[key]; had != nil && !bytes.Equal(had.Value, r.Value) {
			n++
		}
	}
	return n
}

// table is the last row of each key.
func (w *endings) table(group string) map[string][]byte {
	w.T.Helper()
	rows := make(map[string][]byte)
	for key, r := range w.ends(topology.TableOf(group)) {
		rows[key] = r.Value
	}
	return rows
}

// equal compares the rows of a table, byte for byte.
func (w *endings) equal(after, group string, got, want map[string][]byte) {
	w.T.Helper()
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if !bytes.Equal(got[key], want[key]) {
			w.T.Fatalf("after %s: row %q of %s\n is   %s\n want %s", after, key, group, shown(group, got[key]),
				shown(group, want[key]))
		}
	}
	if len(got) != len(want) {
		w.T.Fatalf("after %s: %d rows of %s, want %d", after, len(got), group, len(want))
	}
}

// shown is a row for people.
func shown(group string, value []byte) string {
	var row any
	var err error
	if group == topology.GroupClosure {
		row, err = topology.DecodeClosureRow(value)
	} else {
		row, err = topology.DecodeFrontierRow(value)
	}
	if err != nil {
		return err.Error()
	}
	return text(row)
}
