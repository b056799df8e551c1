package adapters

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/adapters/testpostgres"
)

// bank is a real server with one table.
type bank struct {
	env gate.Env
	db  *sql.DB
	dsn string
}

func startBank(t *testing.T) *bank {
	b := openBank(t, testpostgres.Serve(t))
	b.exec(t, `CREATE TABLE accounts (id text PRIMARY KEY, balance int NOT NULL CHECK (balance >= 0), note jsonb)`)
	b.exec(t, `CREATE TABLE log (id serial PRIMARY KEY, line text)`)
	return b
}

func openBank(t *testing.T, dsn string) *bank {
	t.Helper()
	b := &bank{dsn: dsn}
	db, err := openPostgres(b.dsn, &secrets{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	b.db = db
	b.env = gate.Env{Databases: map[string]gate.Database{"bank": {DSNSecret: "dsn"}},
		Secret: func(string) (string, error) { return b.dsn, nil }}
	return b
}

func (b *bank) exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := b.db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func (b *bank) number(t *testing.T, query string) int {
	t.Helper()
	var n int
	if err := b.db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (b *bank) tool(t *testing.T, spec gate.SQLSpec) gate.Adapter {
	t.Helper()
	spec.Database = "bank"
	return build(t, gate.KindSQL, b.env, spec)
}

// TestPostgres runs everything on one server.
func TestPostgres(t *testing.T) {
	b := startBank(t)
	t.Run("conformance", func(t *testing.T) {
		conform(t, func(t *testing.T) subject {
			b.exec(t, `DROP TABLE IF EXISTS hence_effects`)
			b.exec(t, `TRUNCATE log`)
			return subject{
				do:   b.tool(t, gate.SQLSpec{Statement: `INSERT INTO log (line) VALUES ($1)`, Params: []string{"{n}"}}),
				undo: b.tool(t, gate.SQLSpec{Statement: `DELETE FROM log WHERE line = $1`, Params: []string{"{n}"}}),
				args: `{"n":1}`, look: true, own: true,
				count: func() int { return b.number(t, `SELECT count(*) FROM log`) },
			}
		})
	})
	t.Run("saved rows", func(t *testing.T) { savedRows(t, b) })
	t.Run("verdicts", func(t *testing.T) { sqlVerdicts(t, b) })
	t.Run("look-up waits", func(t *testing.T) { lookUpWaits(t, b) })
	t.Run("lost commit", func(t *testing.T) { lostCommit(t, b) })
	t.Run("parameters only", func(t *testing.T) { parametersOnly(t, b) })
	t.Run("forbid only", func(t *testing.T) { forbidOnly(t, b) })
	t.Run("secrets", func(t *testing.T) { sqlSecrets(t, b) })
}

func savedRows(t *testing.T, b *bank) {
	b.exec(t, `TRUNCATE accounts; INSERT INTO accounts VALUES ('ann', 10, '{"vip":true}')`)
	set := b.tool(t, gate.SQLSpec{
		Statement: `UPDATE accounts SET balance = $2, note = $3 WHERE id = $1 RETURNING id, balance`,
		Params:    []string{"{id}", "{to}", "{note}"},
		Save: &gate.SQLQuery{Statement: `SELECT id, balance, note FROM accounts WHERE id = $1 FOR UPDATE`,
			Params: []string{"{id}"}}})
	back := b.tool(t, gate.SQLSpec{Statement: `UPDATE accounts SET balance = $2, note = $3 WHERE id = $1`,
		Params: []string{"{$saved.rows.0.id}", "{$saved.rows.0.balance}", "{$saved.rows.0.note}"}})
	got := must(t, set, call("s", `{"id":"ann","to":99,"note":{"vip":false}}`))
	if want := `{"affected":1,"rows":[{"balance":99,"id":"ann"}]}`; string(got.Result) != want {
		t.Errorf("result %s, want %s", got.Result, want)
	}
	undo := call("s/undo", `{}`)
	undo.Compensates, undo.Saved = "s", got.Saved
	must(t, back, undo)
	if n := b.number(t, `SELECT count(*) FROM accounts WHERE balance = 10 AND note = '{"vip":true}'`); n != 1 {
		t.Errorf("the row is not as it was; saved was %s", got.Saved)
	}
}

func sqlVerdicts(t *testing.T, b *bank) {
	one := 1
	for name, c := range map[string]struct {
		spec    gate.SQLSpec
		refused bool
	}{
		"constraint":  {gate.SQLSpec{Statement: `UPDATE accounts SET balance = -1`}, true},
		"syntax":      {gate.SQLSpec{Statement: `UPDATE accounts SOT x`}, true},
		"type":        {gate.SQLSpec{Statement: `UPDATE accounts SET balance = $1`, Params: []string{"ten"}}, true},
		"row count":   {gate.SQLSpec{Statement: `DELETE FROM accounts WHERE id = 'nobody'`, Rows: &one}, true},
		"two at once": {gate.SQLSpec{Statement: `DELETE FROM accounts; DELETE FROM log`}, true},
		"time-out":    {gate.SQLSpec{Statement: `SELECT pg_sleep(3600)`}, false},
		"deadlock":    {gate.SQLSpec{Statement: `DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '40P01'; END $$`}, false},
	} {
		b.exec(t, `TRUNCATE accounts; INSERT INTO accounts VALUES ('ann', 10, NULL)`)
		patience := 30 * time.Second // a busy machine makes PostgreSQL slow
		if name == "time-out" {
			patience = 500 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		got, err := b.tool(t, c.spec).Call(ctx, call(name, `{}`))
		cancel()
		if c.refused && (err != nil || !got.Refused) || !c.refused && !errors.Is(err, gate.ErrNotSent) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if n := b.number(t, `SELECT sum(balance) FROM accounts`); n != 10 {
			t.Errorf("%s: the balance is %d", name, n)
		}
	}
}

// lookUpWaits asks for a call whose transaction is open: it may yet commit, so absent would be a lie.
func lookUpWaits(t *testing.T, b *bank) {
	a := b.tool(t, gate.SQLSpec{Statement: `INSERT INTO log (line) VALUES ('x')`})
	must(t, a, call("first", `{}`))
	tx, err := b.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), `INSERT INTO hence_effects VALUES ('open', 'r', '{}')`); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if got, err := a.LookUp(t.Context(), call("open", `{}`)); err != nil || got.Absent {
			t.Errorf("the look-up says %+v, %v", got, err)
		}
	})
	until(t, "the look-up waits for the open transaction", func() bool {
		return b.number(t, `SELECT count(*) FROM pg_locks WHERE NOT granted`) > 0
	})
	if err := tx.Commit(); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

// lostCommit cuts the connection when the server was told to commit.
func lostCommit(t *testing.T, b *bank) {
	b.exec(t, `TRUNCATE log`)
	server := b.dsn[strings.Index(b.dsn, "@")+1 : strings.LastIndex(b.dsn, "/")]
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cut := &cutter{listen: l, server: server}
	cut.wait.Go(cut.serve)
	defer cut.wait.Wait()
	defer l.Close()
	env := b.env
	env.Secret = func(string) (string, error) { return strings.Replace(b.dsn, server, l.Addr().String(), 1), nil }
	a := build(t, gate.KindSQL, env, gate.SQLSpec{Database: "bank", Statement: `INSERT INTO log (line) VALUES ('x')`})
	if _, err := a.Call(t.Context(), call("lost", `{}`)); !errors.Is(err, gate.ErrUnknown) {
		t.Errorf("a commit without answer: %v", err)
	}
	whole := b.tool(t, gate.SQLSpec{Statement: `INSERT INTO log (line) VALUES ('x')`})
	until(t, "the commit is seen", func() bool { return b.number(t, `SELECT count(*) FROM log`) == 1 })
	must(t, whole, call("lost", `{}`))
	if n := b.number(t, `SELECT count(*) FROM log`); n != 1 {
		t.Errorf("%d rows after the repetition", n)
	}
}

// cutter forwards connections until it sees a COMMIT, which it forwards without its answer.
type cutter struct {
	listen net.Listener
	server string
	wait   sync.WaitGroup
}

func (c *cutter) serve() {
	for {
		from, err := c.listen.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", c.server)
		if err != nil {
			_ = from.Close() // the sender sees it
			continue
		}
		c.wait.Go(func() { c.forward(from, to) })
		c.wait.Go(func() { pipe(to, from, nil) })
	}
}

func (c *cutter) forward(from, to net.Conn) {
	pipe(from, to, func(data []byte) bool {
		if !strings.Contains(strings.ToLower(string(data)), "commit") {
			return false
		}
		_ = from.Close() // before the server's answer
		return true
	})
}

func pipe(from, to net.Conn, last func([]byte) bool) {
	defer from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		cut := last != nil && last(buf[:n])
		if _, failed := to.Write(buf[:n]); failed != nil || err != nil || cut {
			_ = to.(*net.TCPConn).CloseWrite() // the server finishes what it has
			return
		}
	}
}

func parametersOnly(t *testing.T, b *bank) {
	b.exec(t, `TRUNCATE accounts; INSERT INTO accounts VALUES ('ann', 10, NULL), ('bob', 20, NULL)`)
	a := b.tool(t, gate.SQLSpec{Statement: `DELETE FROM accounts WHERE id = $1`, Params: []string{"{id}"}})
	for i, id := range []string{`ann' OR '1'='1`, `'; DROP TABLE accounts; --`, `$1`, `\`, "\u2028"} {
		must(t, a, call(fmt.Sprint("p", i), string(toJSON(map[string]string{"id": id}))))
	}
	if n := b.number(t, `SELECT count(*) FROM accounts`); n != 2 {
		t.Errorf("%d rows are left of 2", n)
	}
}

func sqlSecrets(t *testing.T, b *bank) {
	spec := gate.SQLSpec{Database: "bank", Statement: `SELECT 1`}
	for _, dsn := range []string{
		"postgres://shop:pa55-w0rd@127.0.0.1:1/postgres?sslmode=disable",
		"postgres://shop:pa55-w0rd@127.0.0.1:x/postgres", "pa55-w0rd", "host=127.0.0.1 port=y password=pa55-w0rd",
		strings.Replace(b.dsn, "/postgres?", "/nowhere?", 1),
	} {
		env := b.env
		env.Secret = func(string) (string, error) { return dsn, nil }
		got, err := build(t, gate.KindSQL, env, spec).Call(t.Context(), call("x", `{}`))
		if !errors.Is(err, gate.ErrNotSent) || strings.Contains(err.Error(), "pa55") {
			t.Errorf("%+v, %v", got, err)
		}
	}
	said := must(t, b.tool(t, gate.SQLSpec{Statement: `SELECT 'it is pa55-w0rd' AS it`}), call("", `{}`))
	var rows struct{ Rows []map[string]string }
	if err := json.Unmarshal(said.Result, &rows); err != nil || strings.Contains(rows.Rows[0]["it"], "pa55") {
		t.Errorf("%s, %v", said.Result, err)
	}
}

// forbidOnly has an undo that is itself an insert: made of a call that never came, it would be seen.
func forbidOnly(t *testing.T, b *bank) {
	do := b.tool(t, gate.SQLSpec{Statement: `INSERT INTO log (line) VALUES ($1)`, Params: []string{"{n}"}})
	undo := b.tool(t, gate.SQLSpec{Statement: `INSERT INTO log (line) VALUES ($1)`, Params: []string{"-{n}"}})
	for name, c := range map[string]struct {
		ran, only bool
		want      int
	}{
		"never came":                {false, true, 0},
		"came, and nobody knew":     {true, true, 2},
		"came":                      {true, false, 2},
		"came, in another database": {false, false, 1},
	} {
		b.exec(t, `TRUNCATE hence_effects, log`)
		if c.ran {
			must(t, do, call("k", `{"n":10}`))
		}
		back := call("k/undo", `{"n":10}`)
		back.Compensates, back.ForbidOnly = "k", c.only
		for range 2 {
			must(t, undo, back)
		}
		if a, err := undo.LookUp(t.Context(), back); err != nil || a.Absent {
			t.Errorf("%s: looked up, the compensation is %+v, %v", name, a, err)
		}
		if a, err := do.Call(t.Context(), call("k", `{"n":10}`)); err != nil || !a.Refused {
			t.Errorf("%s: the call comes after its compensation: %+v, %v; want it refused", name, a, err)
		}
		if n := b.number(t, `SELECT count(*) FROM log`); n != c.want {
			t.Errorf("%s: %d rows, want %d", name, n, c.want)
		}
	}
}
