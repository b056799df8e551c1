package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Server is one entry of "mcpServers": a program that speaks on its standard streams, or the URL of a service.
type Server struct {
	Type    string            `json:"type,omitempty"` // stdio or http; empty: as command or url says
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"` // beside PATH, HOME and what else a program cannot do without
	Dir     string            `json:"cwd,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`

	variables []string // that Env and Headers are taken from
}

// Bounds of a configuration.
const (
	maxConfig  = 1 << 20
	MaxServers = 30 // an agent may register the tools of 32
)

// ReadConfig reads a file {"mcpServers": {NAME: {...}}}, the shape that MCP clients share. ${VAR} and ${VAR:-text} are
// taken from the environment. Values that come from there are in no error.
func ReadConfig(path string) (map[string]Server, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the MCP servers: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err == nil && len(data) > maxConfig {
		err = fmt.Errorf("it has more than %d bytes", maxConfig)
	}
	var servers map[string]Server
	if err == nil {
		servers, err = parse(data, os.LookupEnv)
	}
	if err != nil {
		return nil, fmt.Errorf("the MCP servers in %s: %w", path, err)
	}
	return servers, nil
}

func parse(data []byte, lookup func(string) (string, bool)) (map[string]Server, error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(data, &top); err != nil {
		return nil, fmt.Errorf("it is no JSON object: %w", err)
	}
	for _, key := range slices.Sorted(maps.Keys(top)) {
		if key != "mcpServers" {
			return nil, fmt.Errorf("unknown key %.40q: write the servers below \"mcpServers\", and nothing beside it", key)
		}
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(top["mcpServers"], &entries); err != nil || len(entries) == 0 {
		return nil, errors.New(`it names no server: write {"mcpServers": {"files": {"command": "..."}}}`)
	}
	if len(entries) > MaxServers {
		return nil, fmt.Errorf("it names %d servers: keep it to %d", len(entries), MaxServers)
	}
	out := make(map[string]Server, len(entries))
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		s, err := parseServer(name, entries[name], lookup)
		if err != nil {
			return nil, fmt.Errorf("server %.40q: %w", name, err)
		}
		out[name] = s
	}
	return out, nil
}

func parseServer(name string, data []byte, lookup func(string) (string, bool)) (s Server, err error) {
	if err := checkName(name); err != nil {
		return s, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, fmt.Errorf("%w: it takes command, args, env and cwd, or url and headers, and a type", err)
	}
	expand := func(text string, lookup func(string) (string, bool)) string {
		out, miss := expandVars(text, lookup)
		if miss != "" && err == nil {
			err = fmt.Errorf("the environment variable %s is not set: set it, or write ${%s:-default}", miss, miss)
		}
		return out
	}
	s.Command, s.Dir, s.URL = expand(s.Command, lookup), expand(s.Dir, lookup), expand(s.URL, lookup)
	for i := range s.Args {
		s.Args[i] = expand(s.Args[i], lookup)
	}
	noted := func(name string) (string, bool) {
		s.variables = append(s.variables, name)
		return lookup(name)
	}
	for _, values := range []map[string]string{s.Env, s.Headers} {
		for key, value := range values {
			values[key] = expand(value, noted)
		}
	}
	if err != nil {
		return s, err
	}
	return s, s.check()
}

// checkName: a server's name is the part before "__" in the name of a tool of the aggregate, and a segment of a path.
func checkName(name string) error {
	if !regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]|_[A-Za-z0-9-])*$`).MatchString(name) || len(name) > 32 {
		return errors.New("its name is to be 1 to 32 letters, digits, '-' and single '_' that begin and end with none: " +
			`"NAME__TOOL" names its tools`)
	}
	return nil
}

func (s *Server) check() error {
	kind := s.Type
	switch {
	case (s.Command == "") == (s.URL == ""):
		return errors.New("give a command, or a url: one of both")
	case kind == "" && s.Command != "":
		kind = "stdio"
	case kind == "" || kind == "streamable-http" || kind == "streamableHttp":
		kind = "http"
	}
	switch {
	case kind == "sse":
		return errors.New("type sse is the transport of 2024, which no maintained server needs: use its url of type http")
	case kind != "stdio" && kind != "http":
		return fmt.Errorf("type is %.20q: write stdio or http", s.Type)
	case (kind == "stdio") != (s.Command != ""):
		return fmt.Errorf("type %s has a command for stdio and a url for http", kind)
	case kind == "stdio" && len(s.Headers) > 0:
		return errors.New("headers are for a url: give a program its secrets in env")
	case kind == "http" && (len(s.Args) > 0 || len(s.Env) > 0 || s.Dir != ""):
		return errors.New("args, env and cwd are for a command")
	}
	s.Type = kind
	if kind == "http" {
		if u, err := url.Parse(s.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return errors.New("url is no absolute URL of http or https")
		}
	}
	return nil
}

// expandVars returns the text with the variables in their places, and the name of the first that is not set.
func expandVars(text string, lookup func(string) (string, bool)) (out, missing string) {
	var b strings.Builder
	for {
		at := strings.Index(text, "${")
		end := -1
		if at >= 0 {
			end = strings.IndexByte(text[at:], '}')
		}
		if end < 0 {
			b.WriteString(text)
			return b.String(), missing
		}
		b.WriteString(text[:at])
		name, fallback, has := strings.Cut(text[at+2:at+end], ":-")
		value, set := lookup(name)
		switch {
		case set:
			b.WriteString(value)
		case has:
			b.WriteString(fallback)
		case missing == "":
			missing = name
		}
		text = text[at+end+1:]
	}
}
