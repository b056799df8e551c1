package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/hence-dev/hence/cmd/hence/internal/show"
)

// explainCmd is the configuration of "hence explain".
type explainCmd struct {
	output
	asking
	Tx string `arg:"" help:"Transaction id."`
}

// Run asks the sidecar.
func (c *explainCmd) Run(ctx context.Context, s Streams) error {
	why, err := c.client().Explain(ctx, c.Tx)
	if err != nil {
		return fmt.Errorf("explain %s: %w", c.Tx, err)
	}
	return c.print(s.Out, why, func(w io.Writer) error {
		return show.Plainly(w, "%s\n", why.Paragraph)
	})
}
