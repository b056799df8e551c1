package agent

import (
	"fmt"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
)

// notTaken is the problem of an intent that the log has refused: it says nothing of how a transaction stands.
func notTaken(o *sequencer.Outcome, format string, args ...any) *api.Problem {
	p := api.Problemf(string(o.Code), "%s: %s", fmt.Sprintf(format, args...), o.Detail)
	p.Retryable = o.Retryable
	return p
}
