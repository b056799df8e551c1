package postgres

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/load"
	"github.com/hence-dev/hence/gate/adapters/testpostgres"
)

// Turns that meet on one row are all made, each after the one before it, and the table is gone at the end.
func TestTurns(t *testing.T) {
	url := testpostgres.Serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const workers = 8
	table, err := Open(ctx, url, "hence-bench-1", workers, 1, "text", func(int) int { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	if text, err := table.Settings(ctx); err != nil || text == "" {
		t.Errorf("settings %q, %v", text, err)
	}
	got, err := load.Run(ctx, load.Spec{Workers: workers, For: time.Second}, table.Turn)
	if err != nil || got.Turns == 0 {
		t.Fatalf("%d turns, %v", got.Turns, err)
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	version := 0
	err = conn.QueryRow(ctx, `SELECT version FROM "hence-bench-1"`).Scan(&version)
	if err != nil || version != got.Turns+1 || got.Refused == 0 {
		t.Errorf("%d turns, %d refused, and the row has version %d, %v", got.Turns, got.Refused, version, err)
	}
	table.Close()
	if err := conn.QueryRow(ctx, `SELECT version FROM "hence-bench-1"`).Scan(&version); err == nil {
		t.Error("the table is still there")
	}
	if at, err := Address(url); err != nil || !strings.Contains(url, "@"+at+"/") {
		t.Errorf("it listens on %s, %v", at, err)
	}
}

// Turns that add lose no line, and none is made again.
func TestAdds(t *testing.T) {
	url := testpostgres.Serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	table, err := OpenToAdd(ctx, url, "hence-bench-2", 4, 1, func(int) int { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	got, err := load.Run(ctx, load.Spec{Workers: 4, For: time.Second / 2}, table.Add("line\n"))
	if err != nil || got.Turns == 0 || got.Refused != 0 {
		t.Fatalf("%d turns, %d refused, %v", got.Turns, got.Refused, err)
	}
	size := 0
	err = table.conns[0].QueryRow(ctx, `SELECT length(content) FROM "hence-bench-2"`).Scan(&size)
	if err != nil || size != got.Turns*len("line\n") {
		t.Errorf("%d turns, and the row has %d bytes, %v", got.Turns, size, err)
	}
}
