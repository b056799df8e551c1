package agentfile

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/hence-dev/hence/gate/yamlfile"
)

const whole = `version: 1
embedded: true
workspace: shop
env: {A: 1, B: top}
hook: {url: "https://judge.example/ask"}
restart: on-failure
agents:
  - name: one
    command: [python3, agent.py, 3, true]
    env: {B: own}
  - name: two
    command: ./agent.sh | cat
    dir: sub
    workspace: other
    order: locked
    mode: observe
    policy: tools.yaml
    hook: {command: [./judge.sh, 3], timeout: 1m}
    restart: never
    restarts: 7
`

// What stands at the top is for all agents, unless they say otherwise; paths are seen from the file.
func TestRead(t *testing.T) {
	got, found := Read("agents.yaml", "/files", []byte(whole))
	want := File{Embedded: true, Agents: []Agent{
		{Name: "one", Command: []string{"python3", "agent.py", "3", "true"}, Env: []string{"A=1", "B=top", "B=own"},
			Dir: "/files", Workspace: "shop", Restart: RestartOnFailure, Restarts: 5, Line: 8, Column: 5,
			Hook: &Hook{URL: "https://judge.example/ask", Dir: "/files", Line: 5, Column: 8}},
		{Name: "two", Command: []string{"sh", "-c", "./agent.sh | cat"}, Env: []string{"A=1", "B=top"}, Dir: "/files/sub",
			Workspace: "other", Order: "locked", Mode: "observe", Policy: "/files/tools.yaml", Restart: RestartNever,
			Restarts: 7, Line: 11, Column: 5, Hook: &Hook{Command: []string{"./judge.sh", "3"}, Timeout: time.Minute,
				Dir: "/files", Line: 18, Column: 12}},
	}}
	if len(found) > 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, found, want)
	}
}

// bad maps a file to where it is wrong and what is said.
func bad() map[string]string {
	head := "version: 1\nagents:\n  - name: a\n    command: [x]\n"
	all := map[string]string{
		"": "1:1: the file is empty",
		"version: 2\nagents: [{name: a, command: x}]":    `1:10: version "2"`,
		"agents: [{name: a, command: x}]":                `the key "version" is missing`,
		"version: 1":                                     `the key "agents" is missing`,
		"version: 1\nagents: []":                         "name 1 to 64",
		"version: 1\nagents: {a: x}":                     "agents is a mapping: it must be a list",
		"[1]":                                            "the file is a list",
		head + "    comand: [y]\n":                       `5:5: an agent has no key "comand": did you mean "command"?`,
		head + "    retsart: never\n":                    `did you mean "restart"?`,
		head + "    port: 1\n":                           "known are command, dir, env, hook, mode, name, order, policy",
		head + "    name: b\n":                           "5:5: this is no YAML: mapping key \"name\" already defined",
		head + "    restart: always\n":                   `5:14: restart is "always": write never or on-failure`,
		head + "    restarts: 1001\n":                    "from 0 to 1000",
		head + "    restarts: many\n":                    "from 0 to 1000",
		head + "    order: fast\n":                       "write optimistic or ordered or locked",
		head + "    env: [A]\n":                          "env is a list: it must be names and values",
		head + "    env: {A: }\n":                        "A is nothing: it must be a text",
		head + "    env: {HENCE_URL: x}\n":               "HENCE_URL is set for each agent anyway",
		head + "    workspace: Shop\n":                   `workspace "Shop" is not a name`,
		head + "    dir: \"\"\n":                         "dir is empty",
		head + "embedded: \"yes\"\n":                     "embedded is text: it must be true or false",
		head + "  - name: a\n    command: y":             "5:5: agent a is there twice, first in line 3",
		"version: 1\nagents: [{name: A b, command: x}]":  `name "A b" is not a name`,
		"version: 1\nagents: [{name: a, command: []}]":   "the command names no program",
		"version: 1\nagents: [{name: a, command: 3}]":    "command is a number: it must be a list",
		"version: 1\nagents: [{name: a}]":                "an agent has no command",
		"version: 1\nagents: [{command: x}]":             "an agent has no name",
		"version: 1\nagents: [&x {name: a, command: b}]": "anchors, aliases, tags",
		"version: 1\n---\nversion: 1":                    "a second document",
		"version: [":                                     "this is no YAML",
		strings.Repeat("#", yamlfile.MaxBytes+1):         "1:1: the file is larger than 256 KiB",
	}
	for hook, want := range badHooks() {
		all[head+"hook: "+hook] = want
	}
	return all
}

// badHooks are for the whole file, in its line 5; what an agent says is read in the same way.
func badHooks() map[string]string {
	return map[string]string{
		"http://x":                      "5:7: the hook is text: it must be a mapping",
		"{}":                            "5:7: the hook has no url and no command",
		"{timeout: 1s}":                 "the hook has no url and no command",
		"{uri: x}":                      `did you mean "url"?`,
		"{url: http://x, command: [y]}": "5:8: the hook has a url and a command: keep one",
		"\n  url: u:p@x":                "6:8: the hook's url is not one: write http://host/path",
		"{url: \"http:///x\"}":          "the hook's url is not one",
		"{url: \"\"}":                   "url is empty",
		"{command: x y}":                "the hook's command is text: it must be a list",
		"{command: []}":                 "the hook's command names no program",
		"{command: [\"\", x]}":          "the hook's command names no program",
		"{command: [[x]]}":              "a word of the hook's command is a list",
		"{command: [x], timeout: 2m}":   `5:31: the hook's timeout is "2m": write a time up to 1m`,
		"{command: [x], timeout: 0s}":   `5:31: the hook's timeout is "0s"`,
		"{command: [x], timeout: 5}":    `the hook's timeout is "5"`,
		"{command: [x], timeout: soon}": `the hook's timeout is "soon"`,
	}
}

func TestRefused(t *testing.T) {
	for text, want := range bad() {
		_, found := Read("agents.yaml", "/", []byte(text))
		said := ""
		for _, f := range found {
			said += f.String() + "\n"
			if f.What == "" || f.Fix == "" || f.Line < 1 {
				t.Errorf("%.80q: half a finding: %+v", text, f)
			}
		}
		if !strings.Contains(said, want) {
			t.Errorf("%.80q: %q is not in\n%s", text, want, said)
		}
	}
}

// The published schema is the one in the binary; it takes what the reader takes, and refuses much of the rest.
func TestSchema(t *testing.T) {
	published, err := os.ReadFile(filepath.FromSlash("../../../../docs/agents.schema.json"))
	if err != nil || string(published) != string(Schema()) {
		t.Errorf("docs/agents.schema.json is not that of the binary (%v): copy agents.schema.json there", err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(Schema())))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("agents.json", doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("agents.json")
	if err != nil {
		t.Fatal(err)
	}
	valid := func(text []byte) error {
		var v any
		if err := yaml.Unmarshal(text, &v); err != nil {
			return err
		}
		plain, err := json.Marshal(v)
		if err != nil {
			return err
		}
		instance, err := jsonschema.UnmarshalJSON(strings.NewReader(string(plain)))
		if err != nil {
			return err
		}
		return compiled.Validate(instance)
	}
	example, err := os.ReadFile(filepath.FromSlash("../../../../docs/examples/agents.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{whole, string(example)} {
		if _, found := Read("agents.yaml", "/", []byte(text)); len(found) > 0 || valid([]byte(text)) != nil {
			t.Errorf("%.80q: %v, schema %v", text, found, valid([]byte(text)))
		}
	}
	for text, want := range bad() {
		beyond := strings.Contains(want, "there twice") || strings.Contains(want, "anchors") ||
			strings.Contains(want, "document") || strings.Contains(want, `"2m"`) || strings.Contains(want, `"0s"`)
		if valid([]byte(text)) == nil && !beyond {
			t.Errorf("the schema takes %.80q", text)
		}
	}
}

// FuzzRead holds that no text makes the reader panic, and that what it takes can be run.
func FuzzRead(f *testing.F) {
	f.Add([]byte(whole))
	for text := range bad() {
		f.Add([]byte(text[:min(len(text), 1000)]))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, found := Read("agents.yaml", "/files", text)
		if len(found) > 0 {
			return
		}
		for _, a := range file.Agents {
			if a.Name == "" || len(a.Command) == 0 || a.Command[0] == "" || !filepath.IsAbs(a.Dir) || a.Restart == "" {
				t.Errorf("%q gives %+v", text, a)
			}
		}
	})
}
