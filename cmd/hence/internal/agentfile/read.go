package agentfile

import (
	"github.com/hence-dev/hence/cmd/hence/internal/strictfile"
	"github.com/hence-dev/hence/gate/yamlfile"
)

// The parts of a file, under the names that the readers here use.
type (
	place = yamlfile.Place
	value = yamlfile.Node
)

// field is a key that is known somewhere, and what its value is for.
type field struct {
	name string
	take func(*value)
}

// reader turns values into a file.
type reader struct {
	strictfile.Reader
	dir string
}

// fields reads a mapping. Every key must be a known one.
func (r *reader) fields(v *value, what string, known []field) {
	all := make([]strictfile.Field, len(known))
	for i, k := range known {
		all[i] = strictfile.Field{Name: k.name, Take: k.take}
	}
	r.Fields(v, what, all)
}
