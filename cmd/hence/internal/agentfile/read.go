package agentfile

import (
	"github.com/hence-dev/hence/cmd/hence/internal/strictfile"
	"github.com/hence-dev/hence/gate/yamlfile"
)

// The parts of a file, under the names that the readers here use.
type (
	place = yamlfile.Place
	value = yamlfile.Node
	field = strictfile.Field
)

// reader turns values into a file.
type reader struct {
	strictfile.Reader
	dir string
}
