package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/hence-dev/hence/sidecar/client"
)

// explainCmd is the configuration of "hence explain".
type explainCmd struct {
	output
	Tx    string `arg:"" help:"The transaction's id."`
	URL   string `name:"url" default:"http://127.0.0.1:7420" help:"Address of the sidecar that has the transaction."`
	Token string `placeholder:"TEXT" help:"The sidecar's token. Prefer the environment to the flag."`
}

// Run asks the sidecar.
func (c *explainCmd) Run(ctx context.Context, s Streams) error {
	why, err := client.New(c.URL, c.Token).Explain(ctx, c.Tx)
	if err != nil {
		return fmt.Errorf("explain %s: %w", c.Tx, err)
	}
	return c.print(s.Out, why, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, why.Paragraph)
		return err
	})
}
