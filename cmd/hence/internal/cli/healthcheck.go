package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

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
