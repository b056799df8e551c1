package adapters

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/adapters/testpostgres"
	"github.com/hence-dev/hence/gate/policy"
	"github.com/hence-dev/hence/sequencer"
)

const failoverPolicy = `
version: 1
server: s
databases: {bank: {dsn_secret: dsn}}
secrets: {dsn: {env: DSN}}
defaults: {max_time_ms: 4000, retry: {attempts: 8, backoff_ms: 50, backoff_most_ms: 1000}}
tools:
  - tool: order
    class: reversible
    keyed: true
    compensation: {tool: cancel, args: {id: "{args.id}"}}
    args: [id]
    scopes: ["thing:/{id}"]
    sql: {database: bank, statement: "INSERT INTO done (id) VALUES ($1)", params: ["{id}"], rows: 1}
  - tool: cancel
    class: known_outcome
    keyed: true
    undo_only: true
    args: [id]
    scopes: ["thing:/{id}"]
    sql: {database: bank, statement: "DELETE FROM done WHERE id = $1", params: ["{id}"], rows: 1}
  - tool: pay
    class: irreversible
    key: "pay/{id}"
    args: [id]
    scopes: ["thing:/{id}"]
    sql: {database: bank, statement: "INSERT INTO done (id) VALUES ($1)", params: ["{id}"], rows: 1}
  - tool: ping
    class: irreversible
    args: [id]
    scopes: ["thing:/{id}"]
    sql: {database: bank, statement: "INSERT INTO done (id) VALUES ($1)", params: ["{id}"], rows: 1}
`

// TestFailover kills a PostgreSQL server around a COMMIT and promotes its synchronous standby, which the next
// connections meet before or after it is promoted. What is told of each call is what the server that survives has, or
// that it is not known.
//
// HENCE_FAILOVER is how often (50 for the full run).
func TestFailover(t *testing.T) {
	n := 2
	if text := os.Getenv("HENCE_FAILOVER"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatalf("HENCE_FAILOVER: %v", err)
		}
	}
	c := testpostgres.New(t)
	port := testpostgres.FreePort(t)
	first := c.Start(t, "data", port)
	b := openBank(t, "postgres://shop@127.0.0.1:"+port+"/postgres?sslmode=disable")
	b.exec(t, `CREATE TABLE done (id text NOT NULL)`)
	must(t, b.tool(t, gate.SQLSpec{Statement: `SELECT 1`}), call("makes the table of the keys", `{}`))
	first.Stop()
	t.Run("answers wait for the standby", func(t *testing.T) { answersWait(t, c) })
	said := told{}
	for i := range n {
		t.Run(strconv.Itoa(i), func(t *testing.T) { failOver(t, c, rand.New(rand.NewPCG(2, uint64(i))), i, said) })
	}
	t.Logf("told: %v", said)
	if len(said) > 0 && said["clean"] == 0 {
		t.Error("nothing is ever known")
	}
}

// pair is a primary, its synchronous standby, and the network before the former.
type pair struct {
	survivor *bank
	standby  *testpostgres.Server
	network  *disaster
	dsn      string
}

// startPair makes both of a server that was shut down, which is a base backup.
func startPair(t *testing.T, c *testpostgres.Cluster, rng *rand.Rand, round int) *pair {
	before, after := testpostgres.FreePort(t), testpostgres.FreePort(t)
	old, heir := fmt.Sprintf("old%d", round), fmt.Sprintf("heir%d", round)
	for _, to := range []string{old, heir} {
		t.Cleanup(func() {
			if err := os.RemoveAll(filepath.Join(c.Dir, to)); err != nil {
				t.Error(err)
			}
		})
		copied := exec.CommandContext(t.Context(), "cp", "-a", filepath.Join(c.Dir, "data"), filepath.Join(c.Dir, to))
		if out, err := copied.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(c.Dir, heir, "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	primary := c.Start(t, old, before, "synchronous_standby_names=*")
	standby := c.Start(t, heir, after, "primary_conninfo=host=127.0.0.1 port="+before+" user=shop",
		"wal_retrieve_retry_interval=50ms")
	follows(t, before)
	p := &pair{standby: standby, survivor: openBank(t, "postgres://shop@127.0.0.1:"+after+"/postgres?sslmode=disable")}
	p.network = &disaster{kill: primary.Kill, to: "127.0.0.1:" + before, at: int64(1 + rng.IntN(4)), phase: rng.IntN(4),
		delay: time.Duration(rng.IntN(3000)) * time.Microsecond, promote: func() error {
			_, err := p.survivor.db.ExecContext(t.Context(), `SELECT pg_promote(true, 30)`)
			return err
		}, grace: time.Duration(rng.IntN(400)) * time.Millisecond}
	p.dsn = fmt.Sprintf("postgres://shop@%s,127.0.0.1:%s/postgres?sslmode=disable", p.network.listen(t), after)
	if rng.IntN(2) == 0 {
		p.dsn += "&target_session_attrs=read-write" // else it meets the standby
	}
	return p
}

// answersWait has a commit that the standby lacks, and is there for all to see: its session was ended while it waited.
// A repetition under its key is not answered before the standby has it.
func answersWait(t *testing.T, c *testpostgres.Cluster) {
	servers := startPair(t, c, rand.New(rand.NewPCG(2, 0)), -1)
	defer servers.network.over(t)
	b := openBank(t, "postgres://shop@"+servers.network.to+"/postgres?sslmode=disable")
	pay := b.tool(t, gate.SQLSpec{Statement: `INSERT INTO done (id) VALUES ('x')`})
	servers.standby.Signal(syscall.SIGSTOP)
	defer servers.standby.Signal(syscall.SIGCONT)
	within, end := context.WithTimeout(t.Context(), 20*time.Second)
	defer end()
	first := make(chan error, 1)
	go func() {
		_, err := pay.Call(within, call("k", `{}`))
		first <- err
	}()
	const waiting = `FROM pg_stat_activity WHERE wait_event = 'SyncRep'`
	turn := time.NewTicker(10 * time.Millisecond)
	defer turn.Stop()
	for b.number(t, `SELECT count(*) `+waiting) == 0 {
		select {
		case <-turn.C:
		case err := <-first:
			t.Fatalf("a commit did not wait for the standby: %v", err)
		}
	}
	b.number(t, `SELECT count(pg_terminate_backend(pid)) `+waiting)
	if err := <-first; !errors.Is(err, gate.ErrUnknown) {
		t.Errorf("a commit that was broken off: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if a, err := pay.Call(ctx, call("k", `{}`)); b.number(t, `SELECT count(*) FROM done`) != 1 || err == nil {
		t.Errorf("the standby does not have it, and the repetition is answered %+v", a)
	}
	servers.standby.Signal(syscall.SIGCONT)
	if a, err := pay.Call(within, call("k", `{}`)); err != nil || a.Refused {
		t.Errorf("the standby goes on: %+v, %v", a, err)
	}
}

func failOver(t *testing.T, c *testpostgres.Cluster, rng *rand.Rand, round int, said told) {
	servers := startPair(t, c, rng, round)
	p, err := policy.Load([]byte(failoverPolicy), policy.Options{Build: func(d gate.Decl) (gate.Adapter, error) {
		d.Env.Secret = func(string) (string, error) { return servers.dsn, nil }
		return Build(d)
	}})
	if err != nil {
		t.Fatal(err)
	}
	w, ctx := newForeign(0), context.Background() // the former for its journal alone
	engine := func() *gate.Engine { return gate.New(gate.Options{Tools: p, Marks: w, Lease: w}) }
	tools := []string{"pay", "pay", "ping", "pay"}
	settle, eager := (*gate.Engine).Release, rng.IntN(2) == 0
	if eager {
		tools, settle = []string{"order", "order"}, (*gate.Engine).Undo
	}
	effects := make([]gate.Progress, 0, len(tools))
	for i, tool := range tools {
		args := fmt.Appendf(nil, `{"id":"x%d"}`, i)
		found, err := p.Find(tool, args)
		if err != nil {
			t.Fatal(err)
		}
		e := gate.Effect{Tx: "a.1.1", Index: uint32(i), Tool: found, Args: args}
		e.Key = gate.Key(found, "o", e.Tx, e.Index, "")
		effects = append(effects, gate.Progress{Effect: e})
		if !eager {
			continue
		}
		if _, err := engine().Run(ctx, e); err != nil && !errors.Is(err, gate.ErrGivenUp) {
			t.Fatal(err)
		}
	}
	s, err := settle(engine(), ctx, w.journal(effects, gate.ClaimOwn), gate.ClaimOwn)
	if err != nil {
		t.Fatal(err)
	}
	servers.network.over(t)
	for _, e := range s.Effects {
		rows := servers.survivor.number(t, fmt.Sprintf(`SELECT count(*) FROM done WHERE id = 'x%d'`, e.Index))
		there := !eager && e.Result == sequencer.ResultClean || e.Result == sequencer.ResultLeaked
		if said[e.Result.String()]++; e.Result != sequencer.ResultUnresolved && (rows > 1 || (rows == 1) != there) {
			t.Errorf("%s %d settles as %s, and the server that survives has it %d times; phase %d of commit %d\n%+v",
				effects[e.Index].Tool.Name, e.Index, e.Result, rows, servers.network.phase, servers.network.at, s.Residue)
		}
	}
}

// follows waits until the primary has a synchronous standby.
func follows(t *testing.T, port string) {
	t.Helper()
	b := openBank(t, "postgres://shop@127.0.0.1:"+port+"/postgres?sslmode=disable")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	turn := time.NewTicker(10 * time.Millisecond)
	defer turn.Stop()
	for b.number(t, `SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'`) == 0 {
		select {
		case <-turn.C:
		case <-ctx.Done():
			t.Fatal("the standby does not follow")
		}
	}
}

// The moments at which the server is killed.
const (
	beforeCommit = iota // the COMMIT does not get there
	withCommit          // it is on its way
	duringCommit        // some time after it was sent
	afterCommit         // it was answered, and the answer is lost
)

// disaster is the network before the primary: it kills that around one COMMIT, and has the standby promoted later.
type disaster struct {
	to           string
	at           int64 // of all COMMITs, from 1
	phase        int
	delay, grace time.Duration
	kill         func()
	promote      func() error

	commits atomic.Int64
	once    sync.Once
	running sync.WaitGroup
	door    net.Listener
	mu      sync.Mutex
	conns   []net.Conn
	failed  error // the promotion
}

// listen takes connections until it is over.
func (d *disaster) listen(t *testing.T) string {
	t.Helper()
	var err error
	if d.door, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	d.running.Go(func() {
		for {
			client, err := d.door.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", d.to)
			if err != nil {
				_ = client.Close() // it finds the port closed, as it would without this network
				continue
			}
			d.mu.Lock()
			d.conns = append(d.conns, client, server)
			d.mu.Unlock()
			lose := &atomic.Bool{}
			d.running.Go(func() { d.forward(client, server, lose) })
			d.running.Go(func() { d.back(server, client, lose) })
		}
	})
	return d.door.Addr().String()
}

// forward carries what the client says; the drawn COMMIT is the last that is carried.
func (d *disaster) forward(from, to net.Conn, lose *atomic.Bool) {
	defer to.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		last := bytes.Contains(bytes.ToLower(buf[:n]), []byte("commit")) && d.commits.Add(1) == d.at
		if last && d.phase == beforeCommit {
			d.strike()
			_ = from.Close() // nothing answers any more
			return
		}
		lose.Store(last && d.phase == afterCommit)
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
		if last && d.phase == duringCommit {
			time.AfterFunc(d.delay, d.strike)
		} else if last && d.phase == withCommit {
			d.strike()
		}
	}
}

// back carries the answers, but that to the drawn COMMIT when it is to be lost.
func (d *disaster) back(from, to net.Conn, lose *atomic.Bool) {
	defer to.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if lose.Load() {
			d.strike()
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// strike kills the primary, and has the standby promoted a while later.
func (d *disaster) strike() {
	d.once.Do(func() {
		d.kill()
		d.running.Go(func() {
			wait := time.NewTimer(d.grace)
			defer wait.Stop()
			<-wait.C
			d.failed = d.promote() // read once all has ended
		})
	})
}

// over returns when all of it has ended and the standby is the server.
func (d *disaster) over(t *testing.T) {
	t.Helper()
	d.strike() // it may have settled before the drawn COMMIT
	_ = d.door.Close()
	d.mu.Lock()
	for _, conn := range d.conns {
		_ = conn.Close()
	}
	d.mu.Unlock()
	d.running.Wait()
	if d.failed != nil {
		t.Fatal(d.failed)
	}
}
