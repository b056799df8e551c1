package adapters

import (
	"context"
	"database/sql"
	"errors"

	"github.com/hence-dev/hence/gate"
)

// effectsLock is the advisory lock under which the table is made: two that make it at once would fail.
const effectsLock = 0x48454e4345

// in runs one transaction over a connection of its own: a changed secret counts at once, and nothing stays open.
func (a *sqlAdapter) in(ctx context.Context, s *secrets, c gate.Call,
	do func(*sql.Tx) (gate.Answer, error)) (gate.Answer, error) {
	dsn, err := s.get(a.env.Databases[a.spec.Database].DSNSecret)
	if err != nil {
		return gate.Answer{}, notSent("database %s: %v", a.spec.Database, err)
	}
	db, err := openPostgres(dsn, s)
	if err != nil {
		return gate.Answer{}, notSent("database %s: %s", a.spec.Database, s.clean(err.Error()))
	}
	defer func() { _ = db.Close() }() // the transaction is over; what is left is a socket
	db.SetMaxOpenConns(1)
	if c.Key != "" || c.Compensates != "" {
		if err := makeTable(ctx, db); err != nil {
			return gate.Answer{}, notSent("database %s: making hence_effects: %s", a.spec.Database, s.clean(err.Error()))
		}
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return gate.Answer{}, notSent("database %s: %s", a.spec.Database, s.clean(err.Error()))
	}
	answer, err := do(tx)
	if err != nil {
		_ = tx.Rollback() // whatever it says, without a commit nothing happened
		return a.before(s, err)
	}
	if err := tx.Commit(); err != nil {
		return a.during(s, err)
	}
	return answer, nil
}

func makeTable(ctx context.Context, db *sql.DB) error {
	var there bool
	row := db.QueryRowContext(ctx, `SELECT to_regclass('hence_effects') IS NOT NULL`)
	if err := row.Scan(&there); err != nil || there {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(effectsLock)); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS hence_effects (
		key text PRIMARY KEY, request text NOT NULL, result text, compensated boolean NOT NULL DEFAULT false,
		at timestamptz NOT NULL DEFAULT now())`); err != nil {
		return err
	}
	return tx.Commit()
}

// coded is an error of the server itself.
type coded interface {
	error
	SQLState() string
}

// before judges an error that came before COMMIT was sent: nothing happened, since what is not committed is rolled
// back. What the server will say again is its no; a lost connection, a login, a deadlock, a full server, or a standby
// that only reads may pass, so such a call did not leave.
func (a *sqlAdapter) before(s *secrets, err error) (gate.Answer, error) {
	var no refusal
	var server coded
	switch {
	case errors.As(err, &no):
		return gate.Answer{Refused: true, AboutKey: no.key, Detail: detail(no.why)}, nil
	case errors.Is(err, gate.ErrNotSent):
		return gate.Answer{}, err
	case errors.As(err, &server) && !passing(server.SQLState()):
		return s.answer(gate.Answer{Refused: true, Detail: s.detail(server.Error())}), nil
	}
	return gate.Answer{}, notSent("database %s: %s", a.spec.Database, s.clean(err.Error()))
}

// during judges an error of COMMIT. It rolled back if the server says so in a state that a check at the commit has:
// the statement's or a deferred constraint's (22, 23, 42, 44, a trigger's P0), a deadlock or a conflict (40001,
// 40P01). Anything else may be said behind the commit, as 57P01 and 57014 while it waits for a standby, and silence
// says nothing.
func (a *sqlAdapter) during(s *secrets, err error) (gate.Answer, error) {
	var server coded
	if errors.As(err, &server) && rolledBack(server.SQLState()) {
		return a.before(s, err)
	}
	return gate.Answer{}, unknown("database %s: the commit was not answered: %s", a.spec.Database, s.clean(err.Error()))
}

func rolledBack(state string) bool {
	switch sqlClass(state) {
	case "22", "23", "42", "44", "P0":
		return true
	}
	return state == "40001" || state == "40P01"
}

// passing are the classes of states that another try may not meet: connection, a transaction that may only read
// (25006, a standby) or took too long, a login, rollback by the server (deadlock, serialisation), resources, locks, an
// operator's intervention, a failing machine.
func passing(state string) bool {
	switch sqlClass(state) {
	case "", "08", "25", "28", "40", "53", "55", "57", "58":
		return true
	}
	return false
}

// sqlClass is the first two characters of a state; empty: it is none.
func sqlClass(state string) string {
	if len(state) != 5 {
		return ""
	}
	return state[:2]
}
