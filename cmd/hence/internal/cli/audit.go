package cli

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/hence-dev/hence/cmd/hence/internal/access"
	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/streams/recorded"
	"github.com/hence-dev/hence/topology/audit"
)

// maxTrusted bounds a file of keys.
const maxTrusted = 1 << 20

// auditCmd is the configuration of "hence audit".
type auditCmd struct {
	servers
	logging
	output
	Workspace string `default:"default" dev:"workspace" help:"Workspace to audit."`
	From      string `env:"-" type:"path" placeholder:"FILE.tar" help:"Bundle to audit instead of the topics."`
	Trust     string `type:"path" placeholder:"FILE" help:"File of public keys (PEM) whose seals count."`
	Limit     int    `env:"-" default:"100" help:"Findings to show; 0: all."`
}

// Help is what "hence audit --help" says beyond the flags.
func (c *auditCmd) Help() string {
	return `It decides every intent of the workspace again, and holds the decisions against that, against their chain
hashes, and against what the processors have sealed (hence streams --sign-key). It names the first record that does not
hold, and which decisions are not vouched for. Without --trust signatures are not looked at: a program that can write
to the topics can then change decisions and seals together. Keys are never taken from the log. It changes nothing.

A bundle is written by hence export --bundle. docs/audit.md says what is covered and what is not.

Exit code: 0 everything holds, 1 it could not be read, 2 wrong flags, 3 something does not hold.`
}

// Run audits, and prints what was found.
func (c *auditCmd) Run(ctx context.Context, s Streams, dev *devContext, line *kong.Context) error {
	var trust audit.Keys
	if c.Trust != "" {
		text, err := readSmall(c.Trust)
		if err != nil {
			return misused(fmt.Errorf("--trust: %w", err))
		}
		if trust, err = audit.TrustedKeys(text); err != nil {
			return misused(fmt.Errorf("--trust %s: %w", c.Trust, err))
		}
	}
	var src audit.Source
	if c.From != "" {
		file, err := os.Open(c.From)
		if err != nil {
			return fmt.Errorf("audit: %w", err)
		}
		defer file.Close()
		if src, err = audit.OpenBundle(file); err != nil {
			return fmt.Errorf("audit %s: %w", c.From, err)
		}
		// A bundle says itself of which workspace it is: a name that was asked for must be that one.
		of, _ := src.Head()
		if asked, given := dev.given(line, flagOf(line.Selected(), "--workspace")); given && asked != of {
			return fmt.Errorf("audit %s: the bundle is of workspace %s, and not of %s: leave --workspace and HENCE_WORKSPACE "+
				"out, or name another file", c.From, of, asked)
		}
	} else {
		log, err := recorded.OpenSealed(ctx, c.config(c.logger(s.Err)), c.Workspace)
		if err != nil {
			return fmt.Errorf("audit %s: %w", c.Workspace, err)
		}
		src = log
	}
	r, err := audit.Run(ctx, src, trust, c.Limit)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	if err := c.print(s.Out, r, func(w io.Writer) error { return writeAudit(w, r) }); err != nil {
		return err
	}
	if len(r.Findings) > 0 {
		return errCheck
	}
	return nil
}

// sealing is the choice to seal what is published.
type sealing struct {
	SignKey string `type:"path" placeholder:"FILE" help:"Ed25519 key (PEM) that seals what is published, for audits."`
}

// load reads the key; none without a file.
func (c *sealing) load() (ed25519.PrivateKey, error) {
	if c.SignKey == "" {
		return nil, nil
	}
	text, err := access.ReadKey(c.SignKey, maxTrusted)
	if err != nil {
		return nil, misused(fmt.Errorf("--sign-key: %w", err))
	}
	key, err := audit.SigningKey(text)
	if err != nil {
		return nil, misused(fmt.Errorf("--sign-key %s: %w", c.SignKey, err))
	}
	return key, nil
}

// readSmall reads a file of keys.
func readSmall(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxTrusted+1))
	if err == nil && len(text) > maxTrusted {
		err = fmt.Errorf("%s has more than %d bytes", path, maxTrusted)
	}
	return text, err
}

// writeAudit writes a report for people.
func writeAudit(w io.Writer, r *audit.Report) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		_ = show.Plainly(&b, "%-12s%s\n", name, fmt.Sprintf(format, args...)) // takes all
	}
	line("workspace", "%s", r.Workspace)
	if r.Decisions.To == 0 {
		line("decisions", "none")
	} else {
		copies := ""
		if r.Copies > 0 {
			copies = fmt.Sprintf(", %d of them repeat one", r.Copies)
		}
		line("decisions", "%s, in %s%s", rangeText(r.Decisions), show.Several(r.Records, "record"), copies)
	}
	if r.Recomputed.To > 0 {
		line("recomputed", "%s, from %s", rangeText(r.Recomputed), show.Several(r.Intents, "intent"))
	}
	if r.NotFolded != "" {
		line("", "not recomputed: %s", r.NotFolded)
	}
	for _, k := range r.Keys {
		trusted := "trusted"
		if !k.Trusted {
			trusted = "not trusted"
		}
		line("signed by", "%.12s…, %s, %s through decision %d", k.Key, trusted, show.Several(k.Seals, "seal"), k.Through)
	}
	switch {
	case r.Unchecked && r.Seals == 0:
		line("vouched for", "nothing: there are no seals (hence streams --sign-key makes them), and no keys are "+
			"trusted (--trust)")
	case r.Unchecked:
		line("vouched for", "nothing: no keys are trusted (--trust), %s not verified", show.Several(r.Seals, "seal"))
	case r.Vouched == 0:
		line("vouched for", "nothing")
	case r.Vouched < r.Decisions.To:
		line("vouched for", "up to %d; not %s", r.Vouched, rangeText(audit.Range{From: r.Vouched + 1, To: r.Decisions.To}))
	default:
		line("vouched for", "up to %d, which is the last one", r.Vouched)
	}
	if r.Vouched > 0 && len(r.Findings) > 0 {
		line("", "but for what does not hold:")
	}
	if len(r.Unsealed) > 0 && !r.Unchecked {
		list := make([]string, 0, len(r.Unsealed))
		for _, u := range r.Unsealed {
			list = append(list, rangeText(u))
		}
		line("bytes", "no seal has those of %s", strings.Join(list, ", "))
	}
	for _, n := range r.Notes {
		line("note", "%s", n)
	}
	for _, f := range r.Findings {
		where := fmt.Sprintf("%s/%d", f.Topic, f.Partition)
		if f.Kind == audit.KindFile {
			where = f.Topic
		}
		if f.Offset >= 0 {
			where = fmt.Sprintf("%s offset %d", where, f.Offset)
		}
		line("FINDING", "%s: %s: %s", where, f.Kind, f.Text)
	}
	switch {
	case r.More > 0:
		line("", "%d more findings: --limit 0 shows all", r.More)
	case len(r.Findings) == 0:
		line("holds", "nothing was found")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func rangeText(r audit.Range) string {
	if r.From == r.To {
		return fmt.Sprint(r.From)
	}
	return fmt.Sprintf("%d to %d", r.From, r.To)
}
