// Package agentfile reads the file of "hence up": which agents run beside sidecars of their own, and how. It is
// strict: a key that is not known, or a value of the wrong kind, is a finding with its line and what to do.
package agentfile

import (
	_ "embed" // the schema
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hence-dev/hence/cmd/hence/internal/strictfile"
	"github.com/hence-dev/hence/gate/yamlfile"
)

// The bounds of a file.
const (
	maxAgents   = 64
	maxRestarts = 1000
)

//go:embed agents.schema.json
var schema string

// Schema returns the JSON Schema of the file, which docs/agents.schema.json publishes.
func Schema() []byte { return []byte(schema) }

// When a program is started again.
const (
	RestartNever     = "never"
	RestartOnFailure = "on-failure"
)

// File is a file that can be run. Folders and policies are absolute.
type File struct {
	Embedded bool // Kafka, NATS and processors run in the same process
	Agents   []Agent
}

// Agent is one program beside its sidecar.
type Agent struct {
	Name      string
	Command   []string // the program and its arguments
	Env       []string // NAME=value, to be set besides those that are there
	Dir       string   // where the program runs
	Workspace string   // "": the default
	Order     string   // "": the default
	Mode      string   // "": the default
	Policy    string   // file; "": none
	Hook      *Hook    // nil: none
	Restart   string
	Restarts  int // at most, in a row
	Line      int // in the file, 1-based
	Column    int
}

// Finding is one thing that is wrong.
type Finding = strictfile.Finding

// Read reads a file's text. Dir is its folder: what it names is seen from there. The file can be run when there is no
// finding.
func Read(name, dir string, text []byte) (File, []Finding) {
	r := &reader{strictfile.Reader{File: name}, dir}
	root := r.Parse(text, `write "version: 1" and "agents:" with a list`)
	if root == nil {
		return File{}, r.Found
	}
	f := r.document(root)
	return f, r.Sorted()
}

// defaults are what agents have that do not say otherwise.
func defaults() Agent { return Agent{Restart: RestartNever, Restarts: 5} }

func (r *reader) document(root *value) (f File) {
	shared := defaults()
	var agents *value
	r.Document(root, "agents", `write "agents:" and a list, each with a name and a command`, append(r.settings(&shared),
		field{Name: "embedded", Take: func(v *value) { f.Embedded = r.Flag(v, "embedded") }},
		field{Name: "agents", Take: func(v *value) { agents = v }},
	)...)
	if agents == nil {
		return f
	}
	items := r.List(agents, "agents")
	if len(items) == 0 && agents.Kind == yamlfile.List || len(items) > maxAgents {
		r.Refuse(agents.Place, fmt.Sprintf("there are %d agents", len(items)), fmt.Sprintf("name 1 to %d", maxAgents))
	}
	for _, item := range items {
		f.Agents = append(f.Agents, r.agent(item, shared))
	}
	r.twice(f.Agents)
	return f
}

// settings are the keys that stand both at the top, for all, and with an agent.
func (r *reader) settings(a *Agent) []field {
	return []field{
		{Name: "workspace", Take: func(v *value) {
			a.Workspace = r.named(v, "workspace", regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`))
		}},
		{Name: "order", Take: func(v *value) { a.Order = r.OneOf(v, "order", "optimistic", "ordered", "locked") }},
		{Name: "mode", Take: func(v *value) { a.Mode = r.OneOf(v, "mode", "enforce", "observe") }},
		{Name: "policy", Take: func(v *value) { a.Policy = r.path(v, "policy") }},
		{Name: "hook", Take: func(v *value) { a.Hook = r.hook(v) }},
		{Name: "env", Take: func(v *value) { a.Env = append(slices.Clone(a.Env), r.env(v)...) }},
		{Name: "restart", Take: func(v *value) { a.Restart = r.OneOf(v, "restart", RestartNever, RestartOnFailure) }},
		{Name: "restarts", Take: func(v *value) { a.Restarts = r.Number(v, "restarts", maxRestarts) }},
	}
}

func (r *reader) agent(v *value, shared Agent) Agent {
	a := shared
	a.Dir, a.Line, a.Column = r.dir, v.Line, v.Column
	r.Fields(v, "an agent", append(r.settings(&a),
		field{Name: "name", Take: func(v *value) { a.Name = r.named(v, "name", regexp.MustCompile(`^[a-z0-9_-]{1,63}$`)) }},
		field{Name: "command", Take: func(v *value) { a.Command = r.command(v) }},
		field{Name: "dir", Take: func(v *value) { a.Dir = r.path(v, "dir") }},
	))
	for _, required := range []string{"name", "command"} {
		if v.Kind == yamlfile.Map && v.Get(required) == nil {
			r.Refuse(v.Place, fmt.Sprintf("an agent has no %s", required), fmt.Sprintf("write %q", required+": ..."))
		}
	}
	return a
}

// twice finds agents that would take each other's sessions.
func (r *reader) twice(all []Agent) {
	for i, a := range all {
		for _, b := range all[:i] {
			if a.Name != "" && a.Name == b.Name && a.Workspace == b.Workspace {
				r.Refuse(place{Line: a.Line, Column: a.Column},
					fmt.Sprintf("agent %s is there twice, first in line %d", a.Name, b.Line),
					"give each agent of a workspace a name of its own")
			}
		}
	}
}

func (r *reader) named(v *value, what string, form *regexp.Regexp) string {
	name := r.Text(v, what)
	if name != "" && !form.MatchString(name) {
		r.Refuse(v.Place, fmt.Sprintf("%s %.80q is not a name", what, name), "use a-z, 0-9, '_' and '-'")
	}
	return name
}

// command is a list of words, or one text for the shell.
func (r *reader) command(v *value) []string {
	if v.Kind == yamlfile.Text {
		return []string{"sh", "-c", r.Text(v, "command")}
	}
	var words []string
	for _, item := range r.List(v, "command") {
		words = append(words, r.Scalar(item, "a word of the command"))
	}
	if v.Kind == yamlfile.List && (len(words) == 0 || words[0] == "") {
		r.Refuse(v.Place, "the command names no program", "write [program, argument, ...], or one text for the shell")
	}
	return words
}

func (r *reader) env(v *value) (env []string) {
	if v.Kind != yamlfile.Map {
		r.WrongKind(v, "env", "names and values", "NAME: value")
		return nil
	}
	for _, f := range v.Fields {
		if f.Name == "" || strings.ContainsAny(f.Name, "=\x00") {
			r.Refuse(f.Place, fmt.Sprintf("%.40q cannot name a variable", f.Name), "use letters, digits and '_'")
			continue
		}
		if slices.Contains([]string{"HENCE_URL", "HENCE_TOKEN", "HENCE_AGENT", "HENCE_WORKSPACE"}, f.Name) {
			r.Refuse(f.Place, f.Name+" is set for each agent anyway", "leave it out")
			continue
		}
		env = append(env, f.Name+"="+r.Scalar(f.Value, f.Name))
	}
	return env
}

func (r *reader) path(v *value, what string) string {
	path := r.Text(v, what)
	if path != "" && !filepath.IsAbs(path) {
		path = filepath.Join(r.dir, path)
	}
	return path
}
