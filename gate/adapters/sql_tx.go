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

// before judges an error that came before COMMIT was sent: nothing happened. What the server will say again is its no;
// a lost connection, a deadlock or a full server may pass.
func (a *sqlAdapter) before(s *secrets, err error) (gate.Answer, error) {
	var no refusal
	var server coded
	switch {
	case errors.As(err, &no):
		return gate.Answer{Refused: true, Detail: detail(no.why)}, nil
	case errors.Is(err, gate.ErrNotSent):
		return gate.Answer{}, err
	case errors.As(err, &server) && !passing(server.SQLState()):
		return s.answer(gate.Answer{Refused: true, Detail: detail(server.Error())}), nil
	}
	return gate.Answer{}, notSent("database %s: %s", a.spec.Database, s.clean(err.Error()))
}

// during judges an error of COMMIT: the server's own means that it rolled back, silence means nothing.
func (a *sqlAdapter) during(s *secrets, err error) (gate.Answer, error) {
	var server coded
	if errors.As(err, &server) && server.SQLState()[:2] != "57" && server.SQLState()[:2] != "08" {
		return a.before(s, err)
	}
	return gate.Answer{}, unknown("database %s: the commit was not answered: %s", a.spec.Database, s.clean(err.Error()))
}

// passing are the classes of states that another try may not meet: connection, rollback by the server (deadlock,
// serialisation), resources, locks, an operator's intervention.
func passing(state string) bool {
	if len(state) < 2 {
		return true
	}
	switch state[:2] {
	case "08", "40", "53", "55", "57", "58":
		return true
	}
	return false
}
