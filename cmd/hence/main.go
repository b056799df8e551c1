// Command hence is the whole of Hence in one binary: see "hence --help".
package main

import (
	"context"
	"os"

	"github.com/hence-dev/hence/cmd/hence/internal/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:],
		cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Signals: true}))
}
