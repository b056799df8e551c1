package policy

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/yamlfile"
)

// document reads the whole file.
func (r *reader) document(root *node, o Options) *Policy {
	p := &Policy{
		file: o.File, exact: map[string]*decl{}, secrets: map[string]Secret{}, types: defaultTypes(),
		env: gate.Env{Databases: map[string]gate.Database{}},
	}
	maxTime, retry := defaultMaxTime, defaultRetry()
	r.strict = true
	var tools, cases *node
	r.fields(root, "the policy",
		field{"version", func(n *node) {
			if n.Kind != yamlfile.Number || n.Text != "1" {
				r.refuse(n.Place, "version", "this is no version that is known here", "write \"version: 1\"")
			}
		}},
		field{"server", func(n *node) { p.server = r.serverName(n) }},
		field{"strict", func(n *node) { r.strict = r.flag(n, "strict") }},
		field{"defaults", func(n *node) {
			r.fields(n, "defaults",
				field{"max_time_ms", func(n *node) { maxTime = r.milliseconds(n, "max_time_ms", maxTimeMs) }},
				field{"retry", func(n *node) { retry = r.retry(n, retry) }})
		}},
		field{"hosts", func(n *node) { p.env.Hosts = r.hosts(n) }},
		field{"files", func(n *node) { p.env.Root = r.root(n, o.Dir) }},
		field{"mail", func(n *node) { p.env.Mail, r.mailAt = r.mail(n), n.Place }},
		field{"databases", func(n *node) { r.databases(n, p.env.Databases); r.databasesAt = n.Place }},
		field{"secrets", func(n *node) { r.secrets(n, p.secrets, o.Dir) }},
		field{"types", func(n *node) { r.types(n, p.types) }},
		field{"vocabulary", func(n *node) { p.vocabulary = r.vocabulary(n) }},
		field{"tools", func(n *node) { tools = n }},
		field{"cases", func(n *node) { cases = n }},
	)
	p.env.Secret = p.secret
	for _, required := range []struct{ name, fix string }{
		{"version", "write \"version: 1\" in the first line"},
		{"server", "write \"server: name\": the name under which the tools are registered"},
		{"tools", "write \"tools:\" and a list of declarations"},
	} {
		if root.Kind == yamlfile.Map && root.Get(required.name) == nil {
			r.refuse(place{Line: 1, Column: 1}, "missing-key", fmt.Sprintf("the key %q is missing", required.name),
				required.fix)
		}
	}
	if tools != nil {
		for _, n := range r.items(tools, "tools", maxTools) {
			p.tools = append(p.tools, r.decl(n, maxTime, retry))
		}
	}
	if cases != nil {
		p.cases = r.cases(cases)
	}
	return p
}

func (r *reader) serverName(n *node) string {
	name := r.text(n, "server")
	if len(name) > 64 || strings.ContainsFunc(name, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.')
	}) {
		r.refuse(n.Place, "server", fmt.Sprintf("server %.80q is no name", name),
			"use at most 64 letters, digits, '-', '_' and '.'")
	}
	return name
}

func (r *reader) milliseconds(n *node, what string, most int) time.Duration {
	return time.Duration(r.number(n, what, 1, most)) * time.Millisecond
}

func (r *reader) retry(n *node, d gate.Retry) gate.Retry {
	r.fields(n, "retry",
		field{"attempts", func(n *node) { d.Attempts = r.number(n, "attempts", 1, maxRetries) }},
		field{"backoff_ms", func(n *node) { d.Backoff = r.milliseconds(n, "backoff_ms", maxBackoffMs) }},
		field{"backoff_most_ms", func(n *node) { d.Most = r.milliseconds(n, "backoff_most_ms", maxBackoffMs) }})
	d.Most = max(d.Most, d.Backoff)
	return d
}

// hostPort returns a host:port in the form in which they are compared.
func hostPort(text string) (string, bool) {
	host, port, err := net.SplitHostPort(text)
	n, bad := strconv.Atoi(port)
	if err != nil || bad != nil || n < 1 || n > 65535 || host == "" || strings.ContainsAny(host, "/@ *?{}") {
		return "", false
	}
	return net.JoinHostPort(strings.ToLower(strings.TrimSuffix(host, ".")), strconv.Itoa(n)), true
}

func (r *reader) hosts(n *node) []string {
	var out []string
	for _, item := range r.items(n, "hosts", maxList) {
		host, ok := hostPort(r.scalar(item, "a host"))
		if !ok {
			r.refuse(item.Place, "host", fmt.Sprintf("%.80q is no host:port", item.Text),
				"write host:port, for example api.example.com:443, without scheme and path")
		}
		out = append(out, host)
	}
	return out
}

func (r *reader) root(n *node, dir string) string {
	root := ""
	r.fields(n, "files", field{"root", func(n *node) { root = r.text(n, "root") }})
	if root == "" {
		if n.Kind == yamlfile.Map && n.Get("root") == nil {
			r.refuse(n.Place, "missing-key", "files names no root", "write \"root: directory\"")
		}
		return ""
	}
	if !filepath.IsAbs(root) {
		root = filepath.Join(dir, root)
	}
	root, err := filepath.Abs(root)
	if err != nil {
		r.refuse(n.Place, "root", "the root cannot be found from the working directory", "write an absolute path")
	}
	return root
}

func (r *reader) mail(n *node) *gate.Mail {
	m := &gate.Mail{TLS: "starttls"}
	r.fields(n, "mail",
		field{"server", func(n *node) {
			var ok bool
			if m.Server, ok = hostPort(r.scalar(n, "server")); !ok {
				r.refuse(n.Place, "host", fmt.Sprintf("%.80q is no host:port", n.Text), "write host:port")
			}
		}},
		field{"from", func(n *node) {
			if m.From = r.text(n, "from"); !isAddress(m.From) {
				r.refuse(n.Place, "address", fmt.Sprintf("%.80q is no mail address", m.From), "write name@host")
			}
		}},
		field{"user", func(n *node) { m.User = r.text(n, "user") }},
		field{"password_secret", func(n *node) { m.PasswordSecret = r.text(n, "password_secret") }},
		field{"tls", func(n *node) {
			if m.TLS = r.text(n, "tls"); m.TLS != "none" && m.TLS != "starttls" && m.TLS != "tls" {
				r.refuse(n.Place, "tls", fmt.Sprintf("tls is %.40q", m.TLS), "write none, starttls or tls")
			}
		}})
	for _, name := range []string{"server", "from"} {
		if n.Kind == yamlfile.Map && n.Get(name) == nil {
			r.refuse(n.Place, "missing-key", fmt.Sprintf("mail names no %s", name), "add it")
		}
	}
	if (m.User == "") != (m.PasswordSecret == "") {
		r.refuse(n.Place, "missing-key", "mail has one of user and password_secret", "write both or neither")
	}
	return m
}

func (r *reader) databases(n *node, out map[string]gate.Database) {
	if n.Kind != yamlfile.Map {
		r.wrong(n, "databases", yamlfile.Map)
		return
	}
	for _, f := range n.Fields {
		var d gate.Database
		r.fields(f.Value, "database "+f.Name,
			field{"dsn_secret", func(n *node) { d.DSNSecret = r.text(n, "dsn_secret") }})
		if f.Value.Kind == yamlfile.Map && f.Value.Get("dsn_secret") == nil {
			r.refuse(f.Place, "missing-key", fmt.Sprintf("database %.40q has no dsn_secret", f.Name),
				"write \"dsn_secret: name\" and declare it under \"secrets\"")
		}
		out[f.Name] = d
	}
}
