package layers

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hence-dev/hence/cmd/hence/internal/strictfile"
	"github.com/hence-dev/hence/gate/yamlfile"
)

// The bounds of a file.
const (
	maxOperations = 200
	maxSuperstep  = 200
	maxChannels   = 100 // of one operation
	maxName       = 80
)

// Read reads a file's text. It can be used when there is no finding.
func Read(file string, text []byte) (Topology, []strictfile.Finding) {
	r := &reader{Reader: strictfile.Reader{File: file}}
	root := r.Parse(text, `write "version: 1" and "operations:" with a list`)
	if root == nil {
		return Topology{}, r.Found
	}
	r.document(root)
	return r.topology, r.Sorted()
}

// reader turns values into a topology.
type reader struct {
	strictfile.Reader
	topology Topology
}

func (r *reader) document(root *strictfile.Value) {
	r.Document(root, "operations", `write "operations:" and a list, each with an agent and a superstep`,
		strictfile.Field{Name: "reducers", Take: func(v *strictfile.Value) {
			r.topology.Reducers = r.channels(v, "reducers")
		}},
		strictfile.Field{Name: "operations", Take: r.operations},
	)
	for _, channel := range r.topology.Reducers { // a name that nothing has is a slip of the pen
		if !slices.ContainsFunc(r.topology.Operations, func(o Operation) bool {
			return slices.Contains(o.Reads, channel) || slices.Contains(o.Writes, channel)
		}) && len(r.Found) == 0 {
			r.Refuse(root.Get("reducers").Place, fmt.Sprintf("no operation reads or writes %.40s", channel),
				"leave it out, or spell it as the operations do")
		}
	}
}

func (r *reader) operations(v *strictfile.Value) {
	items := r.List(v, "operations")
	if v.Kind == yamlfile.List && (len(items) == 0 || len(items) > maxOperations) {
		r.Refuse(v.Place, fmt.Sprintf("there are %d operations", len(items)), fmt.Sprintf("name 1 to %d", maxOperations))
		return
	}
	for _, item := range items {
		r.operation(item)
	}
}

func (r *reader) operation(v *strictfile.Value) {
	o := Operation{Line: v.Line}
	r.Fields(v, "an operation", []strictfile.Field{
		{Name: "agent", Take: func(v *strictfile.Value) { o.Agent = r.name(v, "agent") }},
		{Name: "superstep", Take: func(v *strictfile.Value) { o.From = r.superstep(v, "superstep") }},
		{Name: "until", Take: func(v *strictfile.Value) { o.To = r.superstep(v, "until") }},
		{Name: "reads", Take: func(v *strictfile.Value) { o.Reads = r.channels(v, "reads") }},
		{Name: "writes", Take: func(v *strictfile.Value) { o.Writes = r.channels(v, "writes") }},
	})
	if v.Kind != yamlfile.Map {
		return
	}
	if v.Get("agent") == nil {
		r.Refuse(v.Place, "an operation has no agent", `write "agent: ..."`)
	}
	if v.Get("superstep") == nil {
		r.Refuse(v.Place, "an operation has no superstep", `write "superstep: 1", the one in which it reads`)
	}
	if v.Get("until") == nil {
		o.To = o.From
	}
	if o.To < o.From {
		r.Refuse(v.Place, fmt.Sprintf("it reads in superstep %d and writes in %d, which is before", o.From, o.To),
			"write the superstep in which it writes as until")
	}
	r.topology.Operations = append(r.topology.Operations, o)
}

func (r *reader) superstep(v *strictfile.Value, what string) int {
	n := r.Number(v, what, maxSuperstep)
	if n == 0 && v.Text == "0" {
		r.Refuse(v.Place, what+" is 0", "count from 1")
	}
	return n
}

func (r *reader) channels(v *strictfile.Value, what string) (names []string) {
	items := r.List(v, what)
	if len(items) > maxChannels {
		r.Refuse(v.Place, fmt.Sprintf("%s has %d channels", what, len(items)), fmt.Sprintf("name at most %d", maxChannels))
		return nil
	}
	for _, item := range items {
		if name := r.name(item, "a channel"); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (r *reader) name(v *strictfile.Value, what string) string {
	text := r.Text(v, what)
	if len(text) > maxName || strings.ContainsAny(text, "\n\x00#") {
		r.Refuse(v.Place, what+" is no name", fmt.Sprintf("write at most %d characters, none of them #", maxName))
	}
	return text
}
