// Command hence is the whole of Hence in one binary: see "hence --help".
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/hence-dev/hence/cmd/hence/internal/cli"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	return cli.Main(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
}
