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

	"github.com/alecthomas/kong"

	"github.com/hence-dev/hence/cmd/hence/internal/access"
	"github.com/hence-dev/hence/cmd/hence/internal/devfile"
	"github.com/hence-dev/hence/cmd/hence/internal/otlp"
	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/upstream"
	"github.com/hence-dev/hence/sidecar"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/console"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/embedded"
	"github.com/hence-dev/hence/streams/processor"
)

// devCmd is the configuration of "hence dev".
type devCmd struct {
	besideAgent
	logging
	output
	tools
	hooked
	sbusFace
	mcpFace
	llmFace
	approving
	keyring
	sealing
	watchful
	RandomPorts bool   `help:"Use free ports instead of 9092, 4222, 7420 and 7422."`
	KafkaPort   int    `default:"9092" help:"Port of Kafka on 127.0.0.1."`
	NATSPort    int    `name:"nats-port" default:"4222" help:"Port of NATS on 127.0.0.1."`
	Listen      string `default:"127.0.0.1:7420" help:"Address of the sidecar, HOST:PORT; port 0 takes a free one."`
	Port        *int   `placeholder:"PORT" help:"Port of the sidecar on 127.0.0.1."`
	ConsolePort int    `default:"7422" help:"Port of the web console on 127.0.0.1."`
	DataDir     string `type:"path" placeholder:"DIR" help:"Folder for all data; without it, data is in memory."`
}

// Dev is the line of "hence dev -o json".
type Dev struct {
	URL       string   `json:"url"`             // of the sidecar
	Token     string   `json:"token,omitempty"` // unless it is in a file
	TokenFile string   `json:"token_file,omitempty"`
	Agent     string   `json:"agent"`
	Workspace string   `json:"workspace"`
	Console   string   `json:"console"`          // of the web console; logs one browser in
	SBus      string   `json:"sbus,omitempty"`   // of the interface for clients of S-Bus
	MCP       string   `json:"mcp,omitempty"`    // of the interface for MCP clients
	Models    []string `json:"models,omitempty"` // variables by which clients of models are told of them
	Brokers   []string `json:"brokers"`
	NATS      string   `json:"nats"`
	Durable   bool     `json:"durable"`
	DataDir   string   `json:"data_dir,omitempty"`
	PID       int      `json:"pid"`
	ReadyMs   float64  `json:"ready_ms"`            // from the start of the command to the sidecar's readiness
	Found     bool     `json:"found"`               // other commands find it by themselves
	Other     int      `json:"other_pid,omitempty"` // of another one that they found before this one was started
}

// Run runs everything until the context ends.
func (c *devCmd) Run(ctx context.Context, s Streams, dev *devContext, line *kong.Context) (err error) {
	start := time.Now()
	if err := cmp.Or(c.usable(), c.mergeable()); err != nil {
		return err
	}
	logger := c.logger(s.Err)
	models, err := c.providers()
	if err != nil {
		return err
	}
	servers, err := c.upstreams(logger)
	if err != nil {
		return err
	}
	defer closeUpstreams(servers)
	tools, err := c.tools.load(logger, servers)
	if err != nil {
		return err
	}
	if err := c.keepOwnToken(logger); err != nil {
		return err
	}
	if c.OperatorToken, err = c.obtainOperator(logger, ""); err != nil { // none given: the token has both roles
		return err
	}
	if err := cmp.Or(c.approving.load(), c.keyring.load()); err != nil {
		return err
	}
	if err := c.address(dev, line); err != nil {
		return err
	}
	dir := c.DataDir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "hence-dev-"); err != nil {
			return fmt.Errorf("make a folder for the run: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	brokers, err := embedded.Start(ctx, embedded.Options{
		DataDir: c.DataDir, KafkaPort: c.KafkaPort, NATSPort: c.NATSPort,
	})
	if errors.Is(err, embedded.ErrNone) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%w (--random-ports takes free ports)", err)
	}
	defer func() { err = errors.Join(err, brokers.Close()) }()
	withdraw := func() error { return nil }
	ready := func(side *sidecar.Sidecar, console string) error {
		d := Dev{
			URL: side.URL(), SBus: side.BusURL(), MCP: side.MCPURL(), Models: modelEnvironment(side),
			Console: console, Token: c.shown(), TokenFile: c.TokenFile, Agent: c.Agent, Workspace: c.Workspace,
			Brokers: brokers.Brokers, NATS: brokers.NATS,
			Durable: c.DataDir != "", DataDir: c.DataDir, PID: os.Getpid(),
			ReadyMs: float64(time.Since(start).Microseconds()) / 1000,
		}
		withdraw, d.Found, d.Other = c.publish(d, logger)
		return c.announce(s.Out, d)
	}
	// Withdrawn before its address is free for another process, which others would send the token to.
	return c.process(ctx, dir, brokers, servers, models, tools, ready, func() error { return withdraw() }, logger)
}

// process runs processors and the sidecar over the servers.
func (c *devCmd) process(ctx context.Context, dir string, servers *embedded.Servers, upstreams *upstream.Set,
	models sidecar.Models, tools gate.Tools, ready func(side *sidecar.Sidecar, console string) error, leave func() error,
	logger *slog.Logger,
) error {
	telemetry, err := otlp.Start("hence-dev", binaryVersion(), logger)
	if err != nil {
		return err
	}
	defer telemetry.Stop(logger)
	cfg := streams.Config{Brokers: servers.Brokers, NATS: servers.NATS, Dial: servers.Dial, Logger: logger,
		Anomalies: c.window()}
	if cfg.SealKey, err = c.sealing.load(); err != nil {
		return err
	}
	if err := streams.EnsureTopics(ctx, cfg); err != nil {
		return fmt.Errorf("create the topics: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var processors sync.WaitGroup
	defer processors.Wait()
	defer cancel(nil)
	processors.Go(func() {
		if err := processor.Run(ctx, cfg); ctx.Err() == nil {
			cancel(fmt.Errorf("the processors ended: %w", err))
		}
	})
	log, err := streams.Dial(ctx, cfg)
	if err != nil {
		return fmt.Errorf("connect the sidecar: %w", err)
	}
	defer log.Close()
	side, err := sidecar.New(c.serving(upstreams, c.sbusFace.into(sidecar.Config{
		Agent: c.Agent, Workspace: c.Workspace, Listen: c.Listen,
		DataDir: filepath.Join(dir, "sidecar"), Token: c.Token, OperatorToken: c.OperatorToken, Order: c.order(),
		Approvers: c.people, Keys: c.listed, Authorities: c.Authority,
		Observe: c.Mode == "observe", Tools: tools, Hook: c.hook(), Logger: logger,
		Limits: sidecar.Limits{PlanWait: c.PlanWait}, Models: models,
		Tracer: telemetry.Tracer("hence/sidecar"),
	})), log)
	if err != nil {
		return fmt.Errorf("start the sidecar: %w (--random-ports takes free ports)", err)
	}
	stopConsole := func() error { return nil }
	err = serve(ctx, side, func() (err error) {
		var console string
		if console, stopConsole, err = c.console(ctx, log, side, logger); err != nil {
			return err
		}
		return ready(side, console)
	}, leave)
	err = errors.Join(err, stopConsole())
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// console starts the web console beside the sidecar.
func (c *devCmd) console(ctx context.Context, log *streams.Client, side *sidecar.Sidecar, logger *slog.Logger,
) (url string, stop func() error, err error) {
	token := cmp.Or(c.OperatorToken, c.Token) // who logs in can do what an operator may
	actions := client.New(side.URL(), token, client.WithWorkspace(c.Workspace))
	page, err := console.New(console.Config{Source: log, Workspace: c.Workspace, Token: token, Actions: actions,
		Version: binaryVersion(), Classes: side.BusClasses(), Logger: logger})
	if err == nil {
		url, stop, err = startConsole(ctx, page, net.JoinHostPort("127.0.0.1", strconv.Itoa(c.ConsolePort)), logger)
	}
	if err != nil {
		return "", func() error { return nil }, fmt.Errorf("start the console: %w (--random-ports takes free ports)", err)
	}
	return url, stop, nil
}

// address settles where the sidecar listens: --listen on the command line wins over a port of the environment.
func (c *devCmd) address(dev *devContext, line *kong.Context) error {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return misused(fmt.Errorf("--listen: %w", err))
	}
	listen := dev.onLine(line, flagOf(line.Selected(), "--listen"))
	port := dev.onLine(line, flagOf(line.Selected(), "--port"))
	if listen && port && c.Listen != net.JoinHostPort("127.0.0.1", strconv.Itoa(*c.Port)) {
		return misused(fmt.Errorf("--listen %s and --port %d are two addresses: leave one out", c.Listen, *c.Port))
	}
	switch {
	case c.RandomPorts:
		c.KafkaPort, c.NATSPort, c.ConsolePort = 0, 0, 0
		c.Listen = net.JoinHostPort(host, "0")
	case c.Port != nil && (port || !listen):
		c.Listen = net.JoinHostPort("127.0.0.1", strconv.Itoa(*c.Port))
	}
	return nil
}

// devTokenName is the token of this user's "hence dev" in the state folder.
const devTokenName = "dev-token"

// keepOwnToken settles the token. One that is not given is kept in the user's state folder, so that it is the same
// when hence dev is started again: what another terminal was told holds.
func (c *devCmd) keepOwnToken(logger *slog.Logger) error {
	if c.Token == "" && c.TokenFile == "" {
		dir, err := devfile.Folder()
		if err == nil {
			err = os.MkdirAll(dir, 0o700)
		}
		if err == nil { // a new one is nothing to warn of
			c.Token, err = access.KeepToken(slog.New(slog.DiscardHandler), filepath.Join(dir, devTokenName))
		}
		if err != nil {
			logger.Warn("failed to store the token: the next start creates a new one", "error", err)
		}
	}
	_, err := c.obtain(logger)
	return err
}

// publish lets other commands find this one. found: they do; other is the process that they found before.
func (c *devCmd) publish(d Dev, logger *slog.Logger) (withdraw func() error, found bool, other int) {
	file := devfile.File{PID: d.PID, Started: time.Now(), URL: d.URL, Token: c.Token, OperatorToken: c.OperatorToken,
		Brokers: d.Brokers, NATS: d.NATS, Agent: d.Agent, Workspace: d.Workspace, Policy: c.Policy}
	dir, err := devfile.Folder()
	if err == nil {
		if before, _ := devfile.Find(dir); before.Running != nil {
			other = before.Running.PID
		}
		withdraw, err = devfile.Publish(dir, file)
	}
	if err != nil {
		logger.Warn("failed to write the context file: other commands need the printed export lines", "error", err)
		return func() error { return nil }, false, 0
	}
	return withdraw, true, other
}

func (c *devCmd) announce(w io.Writer, d Dev) error {
	return c.print(w, d, func(w io.Writer) error {
		var b strings.Builder
		fmt.Fprintf(&b, "hence dev is ready after %.0f ms: agent %s, workspace %s\n\n", d.ReadyMs, d.Agent, d.Workspace)
		fmt.Fprintf(&b, "  export HENCE_URL=%s\n", d.URL)
		if d.TokenFile != "" {
			d.Token = fmt.Sprintf("$(cat %s)", show.ShellWord(d.TokenFile))
		}
		fmt.Fprintf(&b, "  export HENCE_TOKEN=%s\n", d.Token)
		fmt.Fprintf(&b, "  export HENCE_BROKERS=%s\n", strings.Join(d.Brokers, ","))
		fmt.Fprintf(&b, "  export HENCE_NATS=%s\n\n", d.NATS)
		if d.SBus != "" {
			fmt.Fprintf(&b, "S-Bus: %s (on loopback, without a token).\n", d.SBus)
		}
		for _, one := range d.Models {
			fmt.Fprintf(&b, "Models: %s\n", one)
		}
		if d.MCP != "" {
			fmt.Fprintf(&b, "MCP: %s (with the token; hence client config NAME prints how a client is told).\n", d.MCP)
		}
		fmt.Fprintf(&b, "Console: %s (the link logs one browser in; other browsers need the token).\n", d.Console)
		if d.Durable {
			fmt.Fprintf(&b, "All data is in %s.\n", d.DataDir)
		} else {
			b.WriteString("NOT DURABLE: all data is lost when this process ends. Give --data-dir DIR to keep it.\n")
		}
		if d.Found {
			b.WriteString("hence commands in other terminals find it; for other programs: eval \"$(hence env)\".\n")
		}
		if d.Other != 0 {
			fmt.Fprintf(&b, "Another hence dev runs, process %d: commands now find this one.\n", d.Other)
		}
		b.WriteString("Stop with Ctrl-C.\n")
		_, err := io.WriteString(w, b.String())
		return err
	})
}
