package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/export"
	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams/recorded"
	"github.com/hence-dev/hence/topology/audit"
)

// exportCmd is the configuration of "hence export".
type exportCmd struct {
	servers
	logging
	Workspace string `default:"default" dev:"workspace" help:"Workspace to export."`
	Tx        string `env:"-" placeholder:"ID" help:"Only this transaction and those that it met."`
	File      string `short:"o" name:"file" env:"-" type:"path" placeholder:"FILE" help:"File; default: standard output."`
	Bundle    string `env:"-" type:"path" placeholder:"FILE.tar" help:"Write the records instead, for hence audit."`
	Oldest    bool   `env:"-" help:"Begin with the oldest decision that retention has left."`
}

// Help is what "hence export --help" says beyond the flags.
func (c *exportCmd) Help() string {
	return `It writes the log of a workspace as a trace, one operation a line, as hence check reads it: what each
transaction read and when, what it wrote and when, whom it rests on, the tools that it had seen, and the order of its
calls. docs/export.md has the fields. --bundle writes the records themselves (intents, decisions, seals) into a tar
file, for an audit elsewhere: docs/audit.md. It reads the log up to where it ends now, and changes nothing.`
}

// Run writes the trace.
func (c *exportCmd) Run(ctx context.Context, s Streams) (err error) {
	if c.Bundle != "" {
		return c.bundle(ctx, s)
	}
	log, err := recorded.Open(ctx, c.config(c.logger(s.Err)), c.Workspace)
	if err != nil {
		return fmt.Errorf("export %s: %w", c.Workspace, err)
	}
	to := s.Out
	if c.File != "" {
		file, err := createResult(c.File)
		if err != nil {
			return fmt.Errorf("export %s: %w", c.Workspace, err)
		}
		defer func() { err = file.end(err) }()
		to = file
	}
	result, err := export.Write(ctx, log, to, export.Options{Tx: sequencer.TxID(c.Tx), Oldest: c.Oldest})
	if errors.Is(err, recorded.ErrGone) && !c.Oldest {
		return fmt.Errorf("export %s: %w; with --oldest what is left is exported", c.Workspace, err)
	}
	if err != nil {
		return fmt.Errorf("export %s: %w", c.Workspace, err)
	}
	if result.Unread > 0 {
		err := show.Plainly(s.Err, "hence export: of %d operations the log has no footprint any more: what they read is "+
			"missing, and is not known to be nothing\n", result.Unread)
		if err != nil {
			return err
		}
	}
	return show.Plainly(s.Err, "hence export: %s, %d of them aborted, of decisions %d to %d of %s\n",
		show.Several(result.Operations, "operation"), result.Aborted, result.First, result.Last, result.Workspace)
}

// bundle writes the records for an audit. A file that is there already stays: it may be the only evidence.
func (c *exportCmd) bundle(ctx context.Context, s Streams) (err error) {
	if c.Tx != "" || c.File != "" || c.Oldest {
		return misused(errors.New("--bundle is of the whole workspace: give it without --tx, --file (-o) and --oldest"))
	}
	log, err := recorded.OpenSealed(ctx, c.config(c.logger(s.Err)), c.Workspace)
	if err != nil {
		return fmt.Errorf("export %s: %w", c.Workspace, err)
	}
	file, err := os.OpenFile(c.Bundle, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("export %s: %s is there already and is left as it is, because a bundle may be the only evidence: "+
			"name another file, or move that one away", c.Workspace, c.Bundle)
	}
	if err != nil {
		return fmt.Errorf("export %s: %w", c.Workspace, err)
	}
	err = errors.Join(audit.WriteBundle(ctx, file, log, time.Now(), binaryVersion()), file.Close())
	if err != nil {
		return fmt.Errorf("export %s: %w", c.Workspace, errors.Join(err, os.Remove(c.Bundle)))
	}
	return show.Plainly(s.Err, "hence export: the records of %s are in %s: hence audit --from reads it\n", c.Workspace,
		c.Bundle)
}

// resultFile is a file that a command makes. It takes the place of what was there once it is whole, so that a command
// that fails leaves a former result as it is. A device or a pipe is written as it comes.
type resultFile struct {
	io.Writer
	file *os.File
	path string // empty: written as it comes
}

// createResult opens a file before the work that it is for: one that cannot be written must not cost that work.
func createResult(path string) (*resultFile, error) {
	to := path
	if real, err := filepath.EvalSymlinks(path); err == nil {
		to = real
	}
	var file *os.File
	was, err := os.Stat(to)
	if err == nil && !was.Mode().IsRegular() {
		file, err = os.OpenFile(to, os.O_WRONLY, 0)
		to = ""
	} else {
		file, err = os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+"-*") // with mode 600
	}
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = failed.Err // its own path may differ from the one that was given
	}
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return &resultFile{Writer: file, file: file, path: to}, nil
}

// end closes the file, and puts it in its place unless the work has failed.
func (r *resultFile) end(failed error) error {
	err := errors.Join(failed, r.file.Close())
	switch {
	case r.path == "":
	case err == nil:
		err = os.Rename(r.file.Name(), r.path)
	default:
		err = errors.Join(err, os.Remove(r.file.Name()))
	}
	return err
}
