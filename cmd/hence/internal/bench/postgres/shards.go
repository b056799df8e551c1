package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Shards are shards as those of S-Bus, in a table of their own: what a commit rests on is compared in the transaction
// that writes. The caller must Close them.
type Shards struct {
	table *Table
	free  chan *pgx.Conn
}

// OpenShards makes a table of its own, and so many connections.
func OpenShards(ctx context.Context, url, name string, conns int) (*Shards, error) {
	s := &Shards{table: &Table{name: pgx.Identifier{name}.Sanitize()}, free: make(chan *pgx.Conn, conns)}
	if err := s.table.connect(ctx, url, conns, "serializable"); err != nil {
		s.Close()
		return nil, err
	}
	_, err := s.table.conns[0].Exec(ctx, "CREATE TABLE "+s.table.name+
		" (key text PRIMARY KEY, version bigint NOT NULL, content text NOT NULL)")
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("make the table %s: %w", s.table.name, err)
	}
	for _, conn := range s.table.conns {
		s.free <- conn
	}
	return s, nil
}

// Settings are those of Table. They are asked for while nothing else is.
func (s *Shards) Settings(ctx context.Context) (string, error) { return s.table.Settings(ctx) }

// Close drops the table and ends the connections.
func (s *Shards) Close() { s.table.Close() }

// serialized makes a transaction on a connection that is free. Failed says that the database wants it made again.
func (s *Shards) serialized(ctx context.Context, what string, do func(pgx.Tx) error) (failed bool, err error) {
	var conn *pgx.Conn
	select {
	case conn = <-s.free:
	case <-ctx.Done():
		return false, fmt.Errorf("%s: wait for a connection: %w", what, context.Cause(ctx))
	}
	defer func() { s.free <- conn }()
	err = pgx.BeginFunc(ctx, conn, do)
	if p, ok := errors.AsType[*pgconn.PgError](err); ok && p.Code == serialization {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", what, err)
	}
	return false, nil
}

// again makes a transaction until the database does not want it made again.
func (s *Shards) again(ctx context.Context, what string, do func(pgx.Tx) error) error {
	for {
		if failed, err := s.serialized(ctx, what, do); err != nil || !failed {
			return err
		}
	}
}

// Create makes a shard at version 0, if it is not there.
func (s *Shards) Create(ctx context.Context, key, content string) (made bool, err error) {
	err = s.again(ctx, "create "+key, func(tx pgx.Tx) error {
		done, err := tx.Exec(ctx, "INSERT INTO "+s.table.name+" VALUES ($1, 0, $2) ON CONFLICT DO NOTHING", key, content)
		made = done.RowsAffected() == 1
		return err
	})
	return made, err
}

// Read reads a shard.
func (s *Shards) Read(ctx context.Context, key string) (version uint64, content string, there bool, err error) {
	err = s.again(ctx, "read "+key, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, "SELECT version, content FROM "+s.table.name+" WHERE key = $1", key).
			Scan(&version, &content)
		there = err == nil
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return version, content, there, err
}

// Overtaken refuses a commit whose transaction the database wants made again: what it read has changed since.
const Overtaken = "SerializationFailure"

// Commit writes a shard, whose version becomes one more than at, if refuses has nothing against the versions that it
// and others have; what it says else is returned.
func (s *Shards) Commit(ctx context.Context, key, text string, at uint64, others []string,
	refuses func(there map[string]uint64) string,
) (version uint64, refused string, err error) {
	failed, err := s.serialized(ctx, "commit "+key, func(tx pgx.Tx) error {
		there, err := s.versions(ctx, tx, append(others, key))
		if err != nil {
			return err
		}
		if refused = refuses(there); refused != "" {
			return nil
		}
		_, err = tx.Exec(ctx, "UPDATE "+s.table.name+" SET version = $2, content = $3 WHERE key = $1", key, at+1, text)
		return err
	})
	if failed {
		refused = Overtaken
	}
	return at + 1, refused, err
}

// versions are those that a transaction sees.
func (s *Shards) versions(ctx context.Context, tx pgx.Tx, keys []string) (map[string]uint64, error) {
	rows, err := tx.Query(ctx, "SELECT key, version FROM "+s.table.name+" WHERE key = ANY ($1)", keys)
	if err != nil {
		return nil, err
	}
	there, key, version := map[string]uint64{}, "", uint64(0)
	_, err = pgx.ForEachRow(rows, []any{&key, &version}, func() error {
		there[key] = version
		return nil
	})
	return there, err
}
