package policy

import (
	"errors"
	"fmt"
	"io"
	"net/mail"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hence-dev/hence/gate/yamlfile"
)

// maxSecretBytes is the size of the largest secret.
const maxSecretBytes = 64 << 10

// ErrSecret is returned by the resolver of secrets when the named one is not declared or cannot be read.
var ErrSecret = errors.New("the secret cannot be read")

// Secret says where a secret is kept. The policy holds no secret itself.
type Secret struct {
	File string // its content without the final line break
	Env  string // environment variable
}

// String names the source; the value is never part of it.
func (s Secret) String() string {
	return "(secret, from " + s.source() + ")"
}

func (s Secret) source() string {
	if s.Env != "" {
		return "the environment variable " + s.Env
	}
	return "the file " + s.File
}

// SecretVariables are the environment variables that hold the policy's secrets, sorted.
func (p *Policy) SecretVariables() []string {
	var out []string
	for _, s := range p.secrets {
		if s.Env != "" {
			out = append(out, s.Env)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// secret reads a declared secret. Each call reads it, and it is kept nowhere.
func (p *Policy) secret(name string) (string, error) {
	s, ok := p.secrets[name]
	if !ok {
		return "", fmt.Errorf("%w: %q is not declared: add it under \"secrets\"", ErrSecret, name)
	}
	if s.Env != "" {
		value, set := os.LookupEnv(s.Env)
		if !set {
			return "", fmt.Errorf("%w: %q: the environment variable %s is not set", ErrSecret, name, s.Env)
		}
		return value, nil
	}
	f, err := os.Open(s.File)
	if err != nil {
		return "", fmt.Errorf("%w: %q: %w", ErrSecret, name, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSecretBytes+1))
	if err != nil {
		return "", fmt.Errorf("%w: %q: %w", ErrSecret, name, err)
	}
	if len(data) > maxSecretBytes {
		return "", fmt.Errorf("%w: %q: the file is larger than %d KiB", ErrSecret, name, maxSecretBytes>>10)
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}

// secretUse is a place of the file where a secret is needed.
type secretUse struct {
	place
	tool, what, name string
}

// MissingSecrets lists the secrets that are needed and cannot be had now, each with the first place that needs it.
// Without them calls would fail, some after a commit has promised them.
func (p *Policy) MissingSecrets() []Finding {
	var out []Finding
	told := map[string]bool{}
	for _, u := range p.uses {
		if u.name == "" || u.tool == "" || told[u.name] {
			continue
		}
		value, err := p.secret(u.name)
		if err == nil && value == "" {
			err = fmt.Errorf("%w: %q: %s is empty", ErrSecret, u.name, p.secrets[u.name].source())
		}
		if err == nil {
			continue
		}
		told[u.name] = true
		why := strings.TrimPrefix(err.Error(), ErrSecret.Error()+": ")
		f := findingAt(u.place, "missing-secret", fmt.Sprintf("%s needs a secret that is not there: %s", u.what, why),
			"set it before the start, or correct the name under \"secrets\"")
		f.Tool = u.tool
		out = append(out, f)
	}
	sortFindings(out)
	return out
}

// secrets reads the references. A value in place of a reference is refused without being repeated in the message.
func (r *reader) secrets(n *node, out map[string]Secret, dir string) {
	if n.Kind != yamlfile.Map {
		r.wrong(n, "secrets", yamlfile.Map)
		return
	}
	for _, f := range n.Fields {
		if f.Value.Kind != yamlfile.Map {
			r.refuse(f.Value.Place, "inline-secret", fmt.Sprintf("secret %.40q is written into the policy", f.Name),
				"keep it elsewhere and write \"{file: path}\" or \"{env: VARIABLE}\"")
			continue
		}
		var s Secret
		r.fields(f.Value, "secret "+f.Name,
			field{"file", func(n *node) { s.File = r.text(n, "file") }},
			field{"env", func(n *node) { s.Env = r.text(n, "env") }})
		if (s.File == "") == (s.Env == "") {
			r.refuse(f.Place, "secret", fmt.Sprintf("secret %.40q has not exactly one source", f.Name),
				"write \"{file: path}\" or \"{env: VARIABLE}\"")
		}
		if s.File != "" && !filepath.IsAbs(s.File) {
			s.File = filepath.Join(dir, s.File)
		}
		out[f.Name] = s
	}
}

func isAddress(text string) bool {
	a, err := mail.ParseAddress(text)
	return err == nil && a.Address != "" && !strings.ContainsAny(text, "\r\n")
}
