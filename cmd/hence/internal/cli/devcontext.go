package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/hence-dev/hence/cmd/hence/internal/devfile"
	"github.com/hence-dev/hence/sidecar/client"
)

// tagDev names, on a flag, which value of a running "hence dev" it has where neither the command line nor the
// environment gives one: url, token, operator_token, brokers, nats, workspace or policy. A flag with "off" turns that
// off for its command; a command with "told" says on standard error that it works where "hence dev" does.
const tagDev = "dev"

// devContext is the "hence dev" that runs on this machine, looked for when a flag first asks for it.
type devContext struct {
	looked bool
	file   *devfile.File // nil: none runs
	others devfile.Found // that are not used
	err    error

	resolved map[*kong.Flag]bool // have their value from it
}

func newDevContext() *devContext { return &devContext{resolved: map[*kong.Flag]bool{}} }

// find looks for it once.
func (d *devContext) find() *devfile.File {
	if !d.looked {
		d.looked = true
		if dir, err := devfile.Folder(); err == nil { // a user without a home, as in a container, has no hence dev
			d.others, d.err = devfile.Find(dir)
			d.file = d.others.Running
		}
	}
	return d.file
}

// notes are what a user should know of what was found.
func (d *devContext) notes() (notes []string) {
	if d.err != nil {
		notes = append(notes, d.err.Error())
	}
	if d.file != nil {
		return notes
	}
	for _, f := range d.others.Gone {
		notes = append(notes, fmt.Sprintf("the hence dev of process %d has ended without taking its context file away: %s "+
			"is not used", f.PID, f.Path))
	}
	for _, f := range d.others.Elsewhere {
		notes = append(notes, fmt.Sprintf("the hence dev of process %d is on another machine or in another container, %q: "+
			"%s is not used", f.PID, f.Machine.Host, f.Path))
	}
	return notes
}

// Resolve implements kong.Resolver: a flag that is not on the command line gets its value here, unless the environment
// gives one.
func (d *devContext) Resolve(line *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if line.Selected() != nil {
		if text, ok := d.of(line, line.Selected(), flag); ok {
			d.resolved[flag] = true
			return text, nil
		}
	}
	return nil, nil
}

// Validate implements kong.Resolver.
func (d *devContext) Validate(*kong.Application) error { return nil }

// of is what a flag of a command has from the running "hence dev".
func (d *devContext) of(line *kong.Context, node *kong.Node, flag *kong.Flag) (string, bool) {
	kind := flag.Tag.Get(tagDev)
	if kind == "" || kind == "off" || node.Name == "dev" { // one hence dev does not stand on another
		return "", false
	}
	if _, set := d.given(line, flag); set || d.find() == nil || d.elsewhere(line, node) {
		return "", false
	}
	ofSidecar := kind == "url" || kind == "token" || kind == "operator_token" || flagOf(node, "--brokers") == nil
	if ofSidecar && d.tokenAlone(line, node) {
		return "", false
	}
	others := []string{flag.Name + "-file"}
	if kind == "operator_token" { // one that is given is to be shown, whose ever it is
		others = append(others, "token", "token-file")
	}
	for _, name := range others {
		if other := flagOf(node, "--"+name); other != nil {
			if _, set := d.given(line, other); set {
				return "", false
			}
		}
	}
	text := devValue(d.file, kind)
	return text, text != ""
}

// took says whether a value of that kind was taken from it.
func (d *devContext) took(kind string) bool {
	for flag := range d.resolved {
		if flag.Tag.Get(tagDev) == kind {
			return true
		}
	}
	return false
}

// elsewhere says whether a command is about something else than the running "hence dev": one of the addresses is given
// and is another. Then nothing is taken from it: its token must not be sent to a stranger.
func (d *devContext) elsewhere(line *kong.Context, node *kong.Node) bool {
	for _, group := range node.AllFlags(false) {
		for _, flag := range group {
			text, set := d.given(line, flag)
			switch kind := flag.Tag.Get(tagDev); {
			case !set:
			case kind == "off" && isTrue(flag, text),
				(kind == "url" || kind == "brokers" || kind == "nats") && text != devValue(d.file, kind):
				return true
			}
		}
	}
	return false
}

// tokenAlone says whether a command that asks a sidecar is given a token and no address. That token may be another
// sidecar's, at the default address: sent to the running "hence dev" it could change the wrong workspace.
func (d *devContext) tokenAlone(line *kong.Context, node *kong.Node) bool {
	asks, token := false, false
	for _, group := range node.AllFlags(false) {
		for _, flag := range group {
			_, set := d.given(line, flag)
			switch kind := flag.Tag.Get(tagDev); {
			case kind == "url":
				asks = !set
			case kind == "token", kind == "operator_token", strings.HasSuffix(flag.Name, "token-file"):
				token = token || set
			}
		}
	}
	return asks && token
}

// borrowed says where a command works, if it has that from the running "hence dev": another cluster or sidecar may be
// at the default address.
func (d *devContext) borrowed() []string {
	switch {
	case d.took("url"):
		return []string{fmt.Sprintf("the address is that of hence dev, process %d (%s): --url names another, see "+
			"docs/operating.md", d.file.PID, d.file.URL)}
	case d.took("brokers"), d.took("nats"):
		return []string{fmt.Sprintf("the cluster is that of hence dev, process %d (%s): --brokers and --nats name "+
			"another, see docs/operating.md", d.file.PID, strings.Join(d.file.Brokers, ","))}
	}
	return nil
}

func devValue(f *devfile.File, kind string) string {
	switch kind {
	case "url":
		return f.URL
	case "token":
		return f.Token
	case "operator_token":
		return f.OperatorToken
	case "brokers":
		return strings.Join(f.Brokers, ",")
	case "nats":
		return f.NATS
	case "workspace":
		return f.Workspace
	case "policy":
		return f.Policy
	}
	panic("cli: no value of hence dev is called " + kind)
}

// given is what the command line, or else the environment, says of a flag.
func (d *devContext) given(line *kong.Context, flag *kong.Flag) (text string, set bool) {
	if d.onLine(line, flag) {
		return written(line.FlagValue(flag)), true
	}
	if name, text := fromEnv(flag); name != "" {
		return text, true
	}
	return "", false
}

// fromEnv is the variable that sets a flag, and what it says; "": none.
func fromEnv(flag *kong.Flag) (name, text string) {
	for _, name := range flag.Envs {
		if text, ok := os.LookupEnv(name); ok {
			return name, text
		}
	}
	return "", ""
}

// origin says in words where a flag's value comes from; "": it is the default.
func (d *devContext) origin(line *kong.Context, flag *kong.Flag) string {
	switch name, _ := fromEnv(flag); {
	case d.onLine(line, flag):
		return "--" + flag.Name
	case name != "":
		return name + " in the environment"
	case d.resolved[flag]:
		return "the hence dev that runs, process " + fmt.Sprint(d.file.PID)
	}
	return ""
}

// onLine says whether the user gave a flag on the command line. The parser lists there also what it has resolved.
func (d *devContext) onLine(line *kong.Context, flag *kong.Flag) bool {
	return !d.resolved[flag] && slices.ContainsFunc(line.Path, func(p *kong.Path) bool { return p.Flag == flag })
}

// advised adds to a sidecar's no, or to its silence, where the address and the token came from and what to do.
func (d *devContext) advised(line *kong.Context, err error) error {
	node := line.Selected()
	if node == nil || flagOf(node, "--url") == nil {
		return err
	}
	var p *client.Problem
	refused := errors.As(err, &p) && p.Code == "unauthorized"
	if !refused && !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	says := "the address is the default"
	switch from := d.origin(line, flagOf(node, "--url")); {
	case from != "":
		says = "the address comes from " + from
	case d.find() != nil && d.tokenAlone(line, node):
		says += ", as a token is given and no address"
	}
	if refused {
		says += "; " + d.shown(line, node)
	}
	return fmt.Errorf("%w\n  %s\n  %s", err, says, d.remedy(node, refused))
}

// shown says which token was sent.
func (d *devContext) shown(line *kong.Context, node *kong.Node) string {
	for _, name := range []string{"operator-token", "operator-token-file", "token", "token-file"} {
		if flag := flagOf(node, "--"+name); flag != nil {
			if from := d.origin(line, flag); from != "" {
				return "the token comes from " + from
			}
		}
	}
	return "no token was given"
}

// remedy is what to do when a sidecar does not answer, or does not take the token.
func (d *devContext) remedy(node *kong.Node, refused bool) string {
	dev := d.find()
	switch {
	case dev == nil && refused:
		return "give the token that this sidecar was started with: --token-file FILE, or HENCE_TOKEN"
	case dev == nil:
		return "no hence dev runs: start one, or name a sidecar that runs with --url"
	case flagOf(node, "--url").Target.String() != dev.URL:
		return `hence dev runs at ` + dev.URL + `: to use it, eval "$(hence env)", or unset HENCE_URL and HENCE_TOKEN`
	}
	return `the hence dev that runs has another: eval "$(hence env)", or unset HENCE_TOKEN`
}
