// Command tools is the outside world of the compose example: a payment ledger, a file store, a mail server and an MCP
// server, each a process of its own ("tools ledger", "tools files", "tools mail", "tools shelf"). They show what Hence
// asks of a service: one that takes an Idempotency-Key gets each effect once.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tools:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("name what to run: ledger, files, mail, shelf, or check URL")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	listen := flags.String("listen", ":7480", "address of the HTTP interface")
	smtp := flags.String("smtp", ":2525", "address of the mail server")
	data := flags.String("data", "/var/lib/tools", "folder of what is kept")
	secret := flags.String("token-file", "", "file with the token that callers of the ledger must show")
	if args[0] == "check" {
		return check(ctx, strings.Join(args[1:], ""))
	}
	if err := flags.Parse(args[1:]); err != nil {
		return fmt.Errorf("read the command line: %w", err)
	}
	switch args[0] {
	case "ledger":
		return runLedger(ctx, *listen, *data, *secret)
	case "files":
		return runFiles(ctx, *listen, *data)
	case "mail":
		return runMail(ctx, *listen, *smtp)
	case "shelf":
		return serve(ctx, "shelf", *listen, newShelf())
	}
	return fmt.Errorf("%q is not one of ledger, files, mail, shelf", args[0])
}

func runLedger(ctx context.Context, listen, data, secret string) error {
	token, err := readToken(secret)
	if err != nil {
		return err
	}
	kept, err := openJournal[charge](data, "ledger", maxCharges)
	if err != nil {
		return err
	}
	defer kept.close()
	return serve(ctx, "ledger", listen, newLedger(kept, token))
}

func runFiles(ctx context.Context, listen, data string) error {
	kept, err := openJournal[change](data, "files", maxChanges)
	if err != nil {
		return err
	}
	defer kept.close()
	return serve(ctx, "files", listen, newFiles(kept))
}

// readToken reads a secret; without a file there is none.
func readToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the token of callers: %w", err)
	}
	if len(text) > 4<<10 || strings.TrimSpace(string(text)) == "" {
		return "", fmt.Errorf("%s has %d bytes: write one token into it", path, len(text))
	}
	return strings.TrimSpace(string(text)), nil
}

// serve answers until ctx ends; /healthz says that it does.
func serve(ctx context.Context, name, listen string, handler http.Handler) error {
	mux := http.NewServeMux()
	mux.Handle("/", handler)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("listen, choose another address with --listen: %w", err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second}
	slog.Info("serving", "tool", name, "address", listener.Addr().String())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err = <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = server.Shutdown(last)
	<-ended
	return err
}

// check asks a tool whether it answers: the image has no other program that could.
func check(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask whether it answers: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	return nil
}
