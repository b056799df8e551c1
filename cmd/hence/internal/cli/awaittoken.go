package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/access"
	"github.com/hence-dev/hence/topology/pause"
)

// tokenEvery is how often a token file that is not there is looked for.
const tokenEvery = 500 * time.Millisecond

// awaitToken reads a token file that another process makes at its first start. It waits for that, and says so once.
func awaitToken(ctx context.Context, logger *slog.Logger, path string) (string, error) {
	for said := false; ; said = true {
		token, err := access.ReadToken(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return token, err
		}
		if !said {
			logger.Warn("waiting for the token file: the sidecar creates it at its start", "file", path)
		}
		if err := pause.Sleep(ctx, tokenEvery); err != nil {
			return "", fmt.Errorf("wait for the token file %s: %w", path, err)
		}
	}
}
