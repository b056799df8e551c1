package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/hence-dev/hence/cmd/hence/internal/access"
	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/gate/yamlfile"
)

// oneCall names one call that needs approval, and the arguments that were looked at.
type oneCall struct {
	output
	deciding
	Tx    string `arg:"" help:"Transaction id."`
	Index uint32 `arg:"" help:"Index of the call in the transaction, from 0."`
	Args  string `name:"args-sha256" placeholder:"HEX" help:"SHA-256 of the arguments seen; default: those sealed."`
}

// effectsApproveCmd is the configuration of "hence effects approve".
type effectsApproveCmd struct{ oneCall }

// Run approves.
func (c *effectsApproveCmd) Run(ctx context.Context, s Streams) error { return c.say(ctx, s, true) }

// effectsDenyCmd is the configuration of "hence effects deny".
type effectsDenyCmd struct{ oneCall }

// Run denies.
func (c *effectsDenyCmd) Run(ctx context.Context, s Streams) error { return c.say(ctx, s, false) }

func (c *oneCall) say(ctx context.Context, s Streams, yes bool) error {
	word := "deny"
	if yes {
		word = "approve"
	}
	d, err := c.client().Approve(ctx, c.Tx, c.Index, yes, c.Args)
	if err != nil {
		return fmt.Errorf("%s call %d of %s: %w", word, c.Index, c.Tx, err)
	}
	return c.print(s.Out, d, func(w io.Writer) error {
		for _, a := range d.Approvals {
			text := "waits for approval"
			if a.By != "" && a.Yes {
				text = "approved by " + a.By
			} else if a.By != "" {
				text = "denied by " + a.By
			}
			if err := show.Plainly(w, "call %d: %s\n", a.Index, text); err != nil {
				return err
			}
		}
		return show.Plainly(w, "%s is %s\n", c.Tx, d.State)
	})
}

// deciding is where a command finds the sidecar that it asks for what only an approver may do or see.
type deciding struct {
	asking
	ApproverToken     string `placeholder:"TEXT" help:"Token of an approver; prefer the environment variable."`
	ApproverTokenFile string `type:"path" placeholder:"FILE" help:"Approver token file, if no approver token is given."`
}

// prepare reads the tokens' files, and shows the approver's token instead of the agent's.
func (d *deciding) prepare() (err error) {
	if err := d.asking.prepare(); err != nil {
		return err
	}
	if d.ApproverToken == "" && d.ApproverTokenFile != "" {
		if d.ApproverToken, err = access.ReadToken(d.ApproverTokenFile); err != nil {
			return err
		}
	}
	if d.ApproverToken != "" {
		d.Token = d.ApproverToken
	}
	return nil
}

// approving is how a sidecar is told who may approve calls.
type approving struct {
	Approvers string `type:"path" placeholder:"FILE" help:"YAML list of who may approve calls: name and token."`

	people map[string]string // by name: the token
}

// load reads the list.
func (a *approving) load() error {
	if a.Approvers == "" {
		return nil
	}
	a.people = map[string]string{}
	return readNames(a.Approvers, "an approver", "write a list, for each approver a line \"- name: NAME\" and below it "+
		"\"token: TOKEN\", of at least 16 characters", []string{"name", "token"}, func(values []string) string {
		name, token := values[0], values[1]
		switch _, twice := a.people[name]; {
		case len(name) > 128:
			return "the name has more than 128 bytes"
		case len(token) < 16:
			return "approver " + name + " has no token, or a short one"
		case twice:
			return "approver " + name + " is there twice"
		}
		a.people[name] = token
		return ""
	})
}

// readNames reads a YAML list that only its owner may read: each item has a name, and may have other texts. take says
// what is wrong with an item; empty: nothing.
func readNames(path, of, how string, keys []string, take func(values []string) string) error {
	text, err := access.ReadSecret(path, yamlfile.MaxBytes)
	if err != nil {
		return err
	}
	root, problem := yamlfile.Parse(text, yamlfile.Fixes{Large: "shorten it", Empty: "write a list"})
	wrong := func(at yamlfile.Place, what string) error {
		return misused(fmt.Errorf("%s:%d:%d: %s: %s", path, at.Line, at.Column, what, how))
	}
	switch {
	case problem != nil:
		return wrong(problem.Place, problem.What)
	case root.Kind != yamlfile.List || len(root.List) == 0:
		return wrong(root.Place, "the file is "+root.Kind.String())
	}
	for _, item := range root.List {
		values := make([]string, len(keys))
		item.Each(keys, func(i int, v *yamlfile.Node) {
			if values[i] = v.Text; v.Kind != yamlfile.Text || v.Text == "" {
				err = wrong(v.Place, "that is "+v.Kind.String()+", and must be a text")
			}
		}, func(key yamlfile.Pair) { err = wrong(key.Place, fmt.Sprintf("%s has no key %.40q", of, key.Name)) })
		if err == nil && values[0] == "" {
			err = wrong(item.Place, of+" has no name")
		}
		if err != nil {
			return err
		}
		if what := take(values); what != "" {
			return wrong(item.Place, what)
		}
	}
	return nil
}
