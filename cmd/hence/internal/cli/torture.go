package cli

import (
	"github.com/hence-dev/hence/cmd/hence/internal/book"
)

// tortureCmd groups what can be done with the results of long tests.
type tortureCmd struct {
	Report tortureReportCmd `cmd:"" help:"Write the table of figures from a book of results."`
}

// tortureReportCmd is the configuration of "hence torture report".
type tortureReportCmd struct {
	Book string `default:"." type:"path" placeholder:"DIR" help:"Folder with the files *.jsonl that tests have written."`
	Doc  string `type:"path" placeholder:"FILE" help:"File to write; default: standard output."`
}

// Help is what "hence torture report --help" says beyond the flags.
func (c *tortureReportCmd) Help() string {
	return `"make torture" in a checkout runs one slice of the torture and adds a line to the book; other long tests add
theirs. This adds them up: faults that landed and voids, commits lost, times of recovery, and which goals are reached.

Exit code: 0, 1 if the book cannot be read, 2 wrong flags.`
}

// Run writes the document.
func (c *tortureReportCmd) Run(s Streams) error {
	all, err := book.Read(c.Book)
	if err != nil {
		return err
	}
	if c.Doc == "" {
		return all.WriteMarkdown(s.Out)
	}
	to, err := createResult(c.Doc)
	if err != nil {
		return err
	}
	return to.end(all.WriteMarkdown(to))
}
