package cli

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/doctor"
)

// doctorCmd is the configuration of "hence doctor".
type doctorCmd struct {
	servers
	topicShape
	output
	logging
	trust
	Replica   string        `enum:",a,b" default:"" help:"Replica whose tables are checked: a or b."`
	Workspace string        `default:"default" dev:"workspace" help:"Workspace to check."`
	Agent     string        `default:"agent-1" help:"Agent whose journal is checked."`
	DataDir   string        `type:"path" placeholder:"DIR" help:"Folder of the journal; default: below the cache."`
	Sidecar   string        `placeholder:"URL" dev:"url" help:"URL of a sidecar to check as well."`
	Token     string        `placeholder:"TEXT" dev:"token" help:"Token of that sidecar, checked as well."`
	TokenFile string        `type:"path" placeholder:"FILE" help:"Token file to check."`
	KeyFile   string        `type:"path" placeholder:"FILE" help:"Private key file; that sidecar is asked by it as well."`
	Listen    []string      `env:"-" placeholder:"ADDR" help:"Addresses that must be free or in use by Hence."`
	Timeout   time.Duration `default:"20s" help:"Time limit for all checks."`
}

// Help is what "hence doctor --help" says beyond the flags.
func (c *doctorCmd) Help() string {
	return `It checks the brokers, the topics (partitions, and the settings that the guarantees rest on), the groups of
processors and their lag, gaps in the decisions, the logic of each workspace, stored names that are not in NFC, clocks,
NATS and JetStream, the journals of an agent and their folder, and, if given, a sidecar, a token file and addresses to
listen on. It changes nothing and locks nothing, so a sidecar may run or start meanwhile. Each problem is printed with
the command that fixes it; problems that follow from another one stand below it.

Exit code: 0 no problem; 3 problems were found; 1 the doctor itself could not run.`
}

// Run looks at everything and prints what it finds.
func (c *doctorCmd) Run(ctx context.Context, s Streams) error {
	asking, err := c.trust.client()
	if err != nil {
		return err
	}
	defer asking.CloseIdleConnections()
	var key ed25519.PrivateKey
	if c.KeyFile != "" {
		if key, err = readKey(c.KeyFile); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	cluster := c.apply(c.config(c.logger(s.Err)))
	cluster.Replica = c.Replica
	d, err := doctor.Examine(ctx, doctor.Patient{Cluster: cluster, Workspace: c.Workspace, Agent: c.Agent,
		DataDir: c.DataDir, Sidecar: c.Sidecar, Token: c.Token, TokenFile: c.TokenFile, Key: key, Listen: c.Listen,
		HTTP: asking})
	if err != nil {
		return err
	}
	if err := c.print(s.Out, d, d.Write); err != nil {
		return err
	}
	if !d.OK {
		return errCheck
	}
	return nil
}

// healthcheckCmd is the configuration of "hence healthcheck".
type healthcheckCmd struct {
	trust
	URL     string        `name:"url" default:"http://127.0.0.1:7420" dev:"url" help:"URL of the process to check."`
	Live    bool          `help:"Check that it is alive, not that it is ready."`
	Timeout time.Duration `default:"3s" help:"Time limit for the answer."`
}

const maxHealthBody = 4 << 10

// Run asks once.
func (c *healthcheckCmd) Run(ctx context.Context, s Streams) error {
	base, err := url.Parse(c.URL)
	if err != nil {
		return misused(fmt.Errorf("--url: %w", err))
	}
	path := "readyz"
	if c.Live {
		path = "healthz"
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath(path).String(), nil)
	if err != nil {
		return fmt.Errorf("ask %s: %w", c.URL, err)
	}
	client, err := c.trust.client()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask whether it is ready: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxHealthBody))
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", req.URL, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %s", req.URL, resp.Status, strings.TrimSpace(string(body)))
	}
	return nil
}
