// Package postgres does the turn that is measured on the database that a user would take instead: every transaction
// SERIALIZABLE, a read, and a write that commits if what was read is unchanged. A turn that only adds to a row is one
// statement, in the isolation that a server has by itself: it loses nothing there, and nothing is made again.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// serialization is SQLSTATE's serialization_failure: the transaction is to be made again.
const serialization = "40001"

// Table is one table of shards, and a connection for each worker. The caller must Close it.
type Table struct {
	name  string
	conns []*pgx.Conn
	shard func(worker int) int
}

// Open makes a table of its own with so many shards, and so many connections. Shard says which one a worker takes
// for its next turn, from 0.
func Open(ctx context.Context, url, name string, workers, shards int, content string,
	shard func(worker int) int) (*Table, error) {
	return open(ctx, url, name, workers, shards, content, shard, "serializable")
}

// OpenToAdd is Open for turns that add.
func OpenToAdd(ctx context.Context, url, name string, workers, shards int,
	shard func(worker int) int) (*Table, error) {
	return open(ctx, url, name, workers, shards, "", shard, "read committed")
}

func open(ctx context.Context, url, name string, workers, shards int, content string, shard func(worker int) int,
	isolation string) (*Table, error) {
	t := &Table{name: pgx.Identifier{name}.Sanitize(), shard: shard}
	if err := t.connect(ctx, url, workers, isolation); err != nil {
		t.Close()
		return nil, err
	}
	if err := t.fill(ctx, shards, content); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// connect makes the connections.
func (t *Table) connect(ctx context.Context, url string, workers int, isolation string) error {
	for range workers {
		cfg, err := pgx.ParseConfig(url)
		if err != nil {
			return fmt.Errorf("read the address of PostgreSQL: %w", err)
		}
		cfg.RuntimeParams["default_transaction_isolation"] = isolation
		// The table is so small that the planner would read all of it. Such a read conflicts with every write, and most
		// turns would be made again: that is no figure of a table of some size.
		cfg.RuntimeParams["enable_seqscan"] = "off"
		conn, err := pgx.ConnectConfig(ctx, cfg)
		if err != nil {
			return fmt.Errorf("connect to PostgreSQL: %w", err)
		}
		t.conns = append(t.conns, conn)
	}
	return nil
}

// fill makes the table.
func (t *Table) fill(ctx context.Context, shards int, content string) error {
	for _, statement := range []string{
		"CREATE TABLE " + t.name + " (id int PRIMARY KEY, version bigint NOT NULL, content text NOT NULL) " +
			"WITH (fillfactor = 50)", // a row's next version fits beside it
		"INSERT INTO " + t.name + " SELECT i, 1, '' FROM generate_series(0, " + strconv.Itoa(shards-1) + ") i",
	} {
		if _, err := t.conns[0].Exec(ctx, statement); err != nil {
			return fmt.Errorf("make the table %s: %w", t.name, err)
		}
	}
	if _, err := t.conns[0].Exec(ctx, "UPDATE "+t.name+" SET content = $1", content); err != nil {
		return fmt.Errorf("fill the table %s: %w", t.name, err)
	}
	return nil
}

// Settings are what the server says of how it makes a commit durable.
func (t *Table) Settings(ctx context.Context) (text string, err error) {
	err = t.conns[0].QueryRow(ctx, `SELECT 'PostgreSQL ' || current_setting('server_version') || ', fsync=' ||
		current_setting('fsync') || ', synchronous_commit=' || current_setting('synchronous_commit')`).Scan(&text)
	if err != nil {
		return "", fmt.Errorf("ask PostgreSQL for its settings: %w", err)
	}
	return text, nil
}

// Address is where a URL's server listens, HOST:PORT.
func Address(url string) (string, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return "", fmt.Errorf("read the address of PostgreSQL: %w", err)
	}
	return net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port))), nil
}

// Turn is load.Turn: a read in one transaction, and in a second one a write that is made if the version still stands;
// again until it is.
func (t *Table) Turn(ctx context.Context, worker int) (took time.Duration, refused int, err error) {
	shard := t.shard(worker)
	for ; ; refused++ {
		done, took, err := t.attempt(ctx, t.conns[worker], shard)
		if p, ok := errors.AsType[*pgconn.PgError](err); ok && p.Code == serialization {
			continue // of the read, too: one that only reads may not come between two writers
		}
		if done || err != nil {
			return took, refused, err
		}
	}
}

// attempt reads and writes once; done says that nothing had changed in between.
func (t *Table) attempt(ctx context.Context, conn *pgx.Conn, shard int) (done bool, took time.Duration, err error) {
	var version int64
	var content string
	err = conn.QueryRow(ctx, "SELECT version, content FROM "+t.name+" WHERE id = $1", shard).Scan(&version, &content)
	if err != nil {
		return false, 0, fmt.Errorf("read %d of %s: %w", shard, t.name, err)
	}
	begin := time.Now()
	written, err := conn.Exec(ctx, "UPDATE "+t.name+" SET version = version + 1, content = $3 WHERE id = $1 "+
		"AND version = $2", shard, version, content)
	if err != nil {
		return false, 0, fmt.Errorf("write %d of %s: %w", shard, t.name, err)
	}
	return written.RowsAffected() == 1, time.Since(begin), nil
}

// Add returns the load.Turn that puts a line behind what a row has, unread.
func (t *Table) Add(line string) func(ctx context.Context, worker int) (time.Duration, int, error) {
	return func(ctx context.Context, worker int) (time.Duration, int, error) {
		shard, begin := t.shard(worker), time.Now()
		_, err := t.conns[worker].Exec(ctx, "UPDATE "+t.name+" SET version = version + 1, content = content || $2 "+
			"WHERE id = $1", shard, line)
		if err != nil {
			return 0, 0, fmt.Errorf("add to %d of %s: %w", shard, t.name, err)
		}
		return time.Since(begin), 0, nil
	}
}

// Close drops the table and ends the connections.
func (t *Table) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for i, conn := range t.conns {
		if i == 0 {
			_, _ = conn.Exec(ctx, "DROP TABLE IF EXISTS "+t.name) // its name is used once
		}
		_ = conn.Close(ctx)
	}
}
