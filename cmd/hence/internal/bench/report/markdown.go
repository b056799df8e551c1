package report

import (
	"fmt"
	"io"
	"strings"
)

// explained says what the figures of each subject are.
func explained(subject string) string {
	switch subject {
	case Latency:
		return `From the request to commit to its answer, with so many turns at once, each on a shard of its own. The floor
is an acknowledged append to Kafka that a consumer hands to NATS and a subscriber receives. The ratios are of the same
run.`
	case Parts:
		return `Where the time of a decision goes, by the timestamps of the spans of some turns, in runs of their own: spans
cost time, too.`
	case Throughput:
		return `Clients read one of the shards and commit a write to it, in two requests, again at once when refused.
Times are of the last request of a turn. The bare loop consumes, does nothing and produces.`
	case CPU:
		return `Processor time of all that take part, by process, for each commit.`
	case Records:
		return `What goes into Kafka for each commit, with the tables: records, and bytes of keys, values and headers before
compression.`
	case Contention:
		return `Each agent on a shard of its own, or all on one, in the three order modes. In mode optimistic a turn is a
read and a commit, in the other two begin, read, write and seal; "touched first" asks for the shard before it is read,
and waits for it. Times are of a whole turn, with what was refused in it.`
	case Read:
		return `A read of a shard through the sidecar of this machine, journalled, beside a handler that does nothing, by the
same clients.`
	case Agents:
		return `Sidecars whose agents only follow, while one agent elsewhere commits: resident memory, and processor time for
each decision of the other one.`
	case Workspaces:
		return `The same load spread over more workspaces, each with a sidecar of its own in one process: a commit is to cost
the same.`
	case Size:
		return `The binary as it is on the disk, and a sidecar of one agent that does nothing.`
	}
	return ""
}

// WriteMarkdown writes the report as the document docs/performance.md.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Performance\n\nWritten by `hence bench`. Ratios carry over to other machines, absolute figures "+
		"do not.\n\n%s.\n", r.about())
	if r.Settings.Postgres != "" {
		fmt.Fprintf(&b, "Beside %s, every transaction SERIALIZABLE, on the same machine.\n", r.Settings.Postgres)
	}
	fmt.Fprintf(&b, "\nA run counts if the bare loop was within %.0f %% of itself before and after it; others are made "+
		"again.\n", VoidAbove*100)
	if len(r.Goals) > 0 {
		b.WriteString("\n## Goals\n\n")
		markdownTable(&b, goalHead(), r.goalRows())
	}
	for _, g := range r.grids() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", strings.ToUpper(g.subject[:1])+g.subject[1:], explained(g.subject))
		markdownTable(&b, g.head, g.rows)
	}
	if len(r.Notes) > 0 {
		b.WriteString("\n## What could not be measured\n\n")
		for _, note := range r.Notes {
			fmt.Fprintf(&b, "- %s\n", note)
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	return nil
}
