package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/console"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/embedded"
)

// devCmd is the configuration of "hence dev".
type devCmd struct {
	beside
	logging
	output
	tools
	hooked
	RandomPorts bool   `help:"Take free ports instead of 9092, 4222, 7420 and 7422."`
	KafkaPort   int    `default:"9092" help:"Port of Kafka on 127.0.0.1."`
	NATSPort    int    `name:"nats-port" default:"4222" help:"Port of NATS on 127.0.0.1."`
	Port        int    `default:"7420" help:"Port of the sidecar on 127.0.0.1."`
	ConsolePort int    `default:"7422" help:"Port of the web console on 127.0.0.1."`
	DataDir     string `type:"path" placeholder:"DIR" help:"Keep everything there; without it nothing is kept."`
}

// Dev is the line of "hence dev -o json".
type Dev struct {
	URL       string   `json:"url"`             // of the sidecar
	Token     string   `json:"token,omitempty"` // unless it is in a file
	TokenFile string   `json:"token_file,omitempty"`
	Agent     string   `json:"agent"`
	Workspace string   `json:"workspace"`
	Console   string   `json:"console"` // of the web console; logs one browser in
	Brokers   []string `json:"brokers"`
	NATS      string   `json:"nats"`
	Durable   bool     `json:"durable"`
	DataDir   string   `json:"data_dir,omitempty"`
	PID       int      `json:"pid"`
	ReadyMs   float64  `json:"ready_ms"` // from the start of the command to the sidecar's readiness
}

// Run runs everything until the context ends.
func (c *devCmd) Run(ctx context.Context, s Streams) (err error) {
	start := time.Now()
	if err := c.usable(); err != nil {
		return err
	}
	logger := c.logger(s.Err)
	tools, err := c.tools.load(logger)
	if err != nil {
		return err
	}
	if _, err := c.obtain(logger); err != nil {
		return err
	}
	if c.OperatorToken, err = c.obtainOperator(logger, ""); err != nil { // none given: the token has both roles
		return err
	}
	if c.RandomPorts {
		c.KafkaPort, c.NATSPort, c.Port, c.ConsolePort = 0, 0, 0, 0
	}
	dir := c.DataDir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "hence-dev-"); err != nil {
			return fmt.Errorf("make a folder for the run: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	servers, err := embedded.Start(ctx, embedded.Options{
		DataDir: c.DataDir, KafkaPort: c.KafkaPort, NATSPort: c.NATSPort,
	})
	if errors.Is(err, embedded.ErrNone) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%w (--random-ports takes free ports)", err)
	}
	defer func() { err = errors.Join(err, servers.Close()) }()
	return c.process(ctx, dir, servers, tools, func(url, console string) error {
		return c.announce(s.Out, Dev{
			URL: url, Console: console, Token: c.shown(), TokenFile: c.TokenFile, Agent: c.Agent, Workspace: c.Workspace,
			Brokers: servers.Brokers, NATS: servers.NATS,
			Durable: c.DataDir != "", DataDir: c.DataDir, PID: os.Getpid(),
			ReadyMs: float64(time.Since(start).Microseconds()) / 1000,
		})
	}, logger)
}

// process runs processors and the sidecar over the servers.
func (c *devCmd) process(ctx context.Context, dir string, servers *embedded.Servers, tools gate.Tools,
	ready func(url, console string) error, logger *slog.Logger) error {
	telemetry, err := startTelemetry("hence-dev", logger)
	if err != nil {
		return err
	}
	defer telemetry.stop(logger)
	cfg := streams.Config{Brokers: servers.Brokers, NATS: servers.NATS, Logger: logger}
	if err := streams.EnsureTopics(ctx, cfg); err != nil {
		return fmt.Errorf("create the topics: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var processors sync.WaitGroup
	defer processors.Wait()
	defer cancel(nil)
	processors.Go(func() {
		if err := streams.Run(ctx, cfg); ctx.Err() == nil {
			cancel(fmt.Errorf("the processors ended: %w", err))
		}
	})
	log, err := streams.Dial(ctx, cfg)
	if err != nil {
		return fmt.Errorf("connect the sidecar: %w", err)
	}
	defer log.Close()
	side, err := sidecar.New(sidecar.Config{
		Agent: c.Agent, Workspace: c.Workspace, Listen: net.JoinHostPort("127.0.0.1", strconv.Itoa(c.Port)),
		DataDir: filepath.Join(dir, "sidecar"), Token: c.Token, OperatorToken: c.OperatorToken, Order: c.order(),
		Observe: c.Mode == "observe", Tools: tools, Hook: c.hook(), Logger: logger,
		Tracer: telemetry.tracer("hence/sidecar"),
	}, log)
	if err != nil {
		return fmt.Errorf("start the sidecar: %w (--random-ports takes free ports)", err)
	}
	stopConsole := func() error { return nil }
	err = serve(ctx, side, func() (err error) {
		var console string
		if console, stopConsole, err = c.console(ctx, log, side.URL(), logger); err != nil {
			return err
		}
		return ready(side.URL(), console)
	})
	err = errors.Join(err, stopConsole())
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// console starts the web console beside the sidecar.
func (c *devCmd) console(ctx context.Context, log *streams.Client, sidecarURL string, logger *slog.Logger,
) (url string, stop func() error, err error) {
	token := cmp.Or(c.OperatorToken, c.Token) // who logs in can do what an operator may
	actions := client.New(sidecarURL, token, client.WithWorkspace(c.Workspace))
	page, err := console.New(console.Config{Source: log, Workspace: c.Workspace, Token: token, Actions: actions,
		Version: binaryVersion(), Logger: logger})
	if err == nil {
		url, stop, err = startConsole(ctx, page, net.JoinHostPort("127.0.0.1", strconv.Itoa(c.ConsolePort)), logger)
	}
	if err != nil {
		return "", func() error { return nil }, fmt.Errorf("start the console: %w (--random-ports takes free ports)", err)
	}
	return url, stop, nil
}

func (c *devCmd) announce(w io.Writer, d Dev) error {
	return c.print(w, d, func(w io.Writer) error {
		var b strings.Builder
		fmt.Fprintf(&b, "hence dev is ready after %.0f ms: agent %s, workspace %s\n\n", d.ReadyMs, d.Agent, d.Workspace)
		fmt.Fprintf(&b, "  export HENCE_URL=%s\n", d.URL)
		if d.TokenFile != "" {
			d.Token = fmt.Sprintf("$(cat %s)", shellWord(d.TokenFile))
		}
		fmt.Fprintf(&b, "  export HENCE_TOKEN=%s\n", d.Token)
		fmt.Fprintf(&b, "  export HENCE_BROKERS=%s\n", strings.Join(d.Brokers, ","))
		fmt.Fprintf(&b, "  export HENCE_NATS=%s\n\n", d.NATS)
		fmt.Fprintf(&b, "Watch it at %s (this link logs one browser in; later ones take the token).\n", d.Console)
		if d.Durable {
			fmt.Fprintf(&b, "Everything is kept in %s.\n", d.DataDir)
		} else {
			b.WriteString("NOT DURABLE: everything is gone when this process ends. Keep it with --data-dir DIR.\n")
		}
		b.WriteString("Stop with Ctrl-C.\n")
		_, err := io.WriteString(w, b.String())
		return err
	})
}
