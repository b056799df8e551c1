package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/beside"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/sidecar/console"
	"github.com/hence-dev/hence/streams"
)

// consoleStop is how long open requests may take once the console was told to stop.
const consoleStop = 3 * time.Second

// consoleCmd is the configuration of "hence console".
type consoleCmd struct {
	servers
	logging
	output
	tokens
	trust
	Workspace        string   `default:"default" dev:"workspace" help:"Workspace to show."`
	Listen           string   `default:"127.0.0.1:7422" placeholder:"HOST:PORT" help:"Address of the web page."`
	Host             []string `placeholder:"NAME" help:"Further host names, besides localhost and IP addresses."`
	PublicURL        string   `placeholder:"URL" help:"URL of the console for browsers, used in the printed link."`
	Sidecar          string   `placeholder:"URL" help:"URL of a sidecar of the workspace, for an operator's actions."`
	SidecarToken     string   `placeholder:"TEXT" help:"Operator token of --sidecar; prefer the environment variable."`
	SidecarTokenFile string   `type:"path" placeholder:"FILE" help:"File with the operator token of --sidecar."`
	SidecarKeyFile   string   `type:"path" placeholder:"FILE" help:"File with an operator's private key, for --sidecar."`
}

// Run serves the console until the context ends.
func (c *consoleCmd) Run(ctx context.Context, s Streams) error {
	logger := c.logger(s.Err)
	fresh, err := c.obtain(logger)
	if err != nil {
		return err
	}
	if err := c.public(); err != nil {
		return err
	}
	actions, close, err := c.actions(ctx, logger)
	if err != nil {
		return beside.QuietEnd(ctx, err)
	}
	defer close()
	cfg := c.config(logger)
	return beside.QuietEnd(ctx, overLogs(ctx, cfg, func(ctx context.Context) error {
		log, err := streams.Dial(ctx, cfg)
		if err != nil {
			return fmt.Errorf("connect to %v and %s: %w", c.Brokers, c.NATS, err)
		}
		defer log.Close()
		page, err := console.New(console.Config{Source: log, Workspace: c.Workspace, Token: c.Token, Hosts: c.Host,
			Actions: actions, Version: binaryVersion(), Logger: logger})
		if err != nil {
			return err
		}
		return serveConsole(ctx, page, c.Listen, logger, func(url string) error {
			url = cmp.Or(c.PublicURL, url)
			if c.json() {
				return printReady(s.Out, c.output, "console", "", url)
			}
			if fresh {
				fmt.Fprintln(s.Out, "token:", c.Token)
			}
			_, err := fmt.Fprintf(s.Out, "console of workspace %s is ready at %s\n"+
				"This link logs one browser in: %s/%s\nIt works once, within %.0f minutes; then use the token, or start again.\n",
				c.Workspace, url, url, page.LoginFragment(), console.LoginLasts.Minutes())
			return err
		})
	}))
}

// public settles the address that is printed; its name is then one of the console's.
func (c *consoleCmd) public() error {
	if c.PublicURL == "" {
		return nil
	}
	u, err := url.Parse(c.PublicURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" ||
		strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "" {
		return misused(fmt.Errorf("--public-url %q is not the URL of a page: write it as http://HOST:PORT", c.PublicURL))
	}
	c.PublicURL, c.Host = u.Scheme+"://"+u.Host, append(c.Host, u.Hostname())
	return nil
}

// actions is the sidecar that does what an operator asks for; nil without --sidecar.
func (c *consoleCmd) actions(ctx context.Context, logger *slog.Logger) (_ console.Actions, close func(), err error) {
	if c.Sidecar == "" {
		return nil, func() {}, nil
	}
	operator, err := c.operator(ctx, logger)
	if err != nil {
		return nil, nil, err
	}
	trusting, err := c.trust.client()
	if err != nil {
		return nil, nil, err
	}
	cl := client.New(c.Sidecar, c.SidecarToken, client.WithWorkspace(c.Workspace), client.WithHTTPClient(trusting),
		operator)
	return cl, cl.Close, nil
}

// operator is what the console shows to the sidecar: a token, or signatures of a key.
func (c *consoleCmd) operator(ctx context.Context, logger *slog.Logger) (show client.Option, err error) {
	given := 0
	for _, text := range []string{c.SidecarToken, c.SidecarTokenFile, c.SidecarKeyFile} {
		if text != "" {
			given++
		}
	}
	switch {
	case given == 0:
		return nil, misused(errors.New("--sidecar needs that sidecar's operator token: give --sidecar-token-file FILE, or " +
			"--sidecar-key-file FILE to sign"))
	case given > 1:
		return nil, misused(errors.New("the operator of the sidecar is given twice: remove all but one of " +
			"--sidecar-token, --sidecar-token-file and --sidecar-key-file"))
	case c.SidecarKeyFile != "":
		key, err := readKey(c.SidecarKeyFile)
		return client.WithKey(key), err
	case c.SidecarTokenFile != "":
		c.SidecarToken, err = awaitToken(ctx, logger, c.SidecarTokenFile)
	}
	return func(*client.Client) {}, err
}

// serveConsole serves a console until the context ends; ready is called once it listens.
func serveConsole(ctx context.Context, page *console.Console, listen string, logger *slog.Logger,
	ready func(url string) error) error {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("listen for browsers: %w; give another address with --listen", err)
	}
	server := &http.Server{Handler: page, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: time.Minute,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug)}
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	watched := make(chan error, 1)
	go func() { watched <- page.Run(running) }()
	if err = ready("http://" + shownAddress(listener.Addr())); err == nil {
		select {
		case <-ctx.Done():
		case err = <-ended:
			ended <- err
			err = fmt.Errorf("serve the console: %w", err)
		}
	}
	cancel()
	<-watched // streams to pages end with it
	stop, done := context.WithTimeout(context.WithoutCancel(ctx), consoleStop)
	defer done()
	if server.Shutdown(stop) != nil {
		_ = server.Close() // what is open now has had its time
	}
	<-ended
	return err
}

// shownAddress is where a browser on this machine finds a listener.
func shownAddress(a net.Addr) string {
	host, port, err := net.SplitHostPort(a.String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return a.String()
}

func binaryVersion() string { return buildOf(debug.ReadBuildInfo()).stamped(stamp).Version }

// startConsole serves a console beside other things. It returns its address, which logs one browser in, and what ends
// it and waits.
func startConsole(ctx context.Context, page *console.Console, listen string, logger *slog.Logger,
) (url string, stop func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	listens, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- serveConsole(ctx, page, listen, logger, func(url string) error {
			listens <- url
			return nil
		})
	}()
	select {
	case url = <-listens:
		return url + "/" + page.LoginFragment(), func() error { cancel(); return <-ended }, nil
	case err = <-ended:
		cancel()
		return "", nil, err
	}
}
