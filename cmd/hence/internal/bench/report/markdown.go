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
read and a commit, in the other two, and where the shard is read "for update", begin, read, write and seal. Times are
of a whole turn, with what was refused in it. contention.md says which way to take when.`
	case Read:
		return `A read of a shard through the sidecar of this machine, journalled, beside a handler that does nothing, by the
same clients.`
	case Agents:
		return `Sidecars whose agents only follow, while one agent elsewhere commits: resident memory, and processor time for
each decision of the other one.`
	case Workspaces:
		return `The same load spread over more workspaces, each with a sidecar of its own in one process: a commit is to cost
the same.`
	case Idle:
		return `Workspaces with a past of 400 writes and one agent each, and agents of one workspace, while nothing is
asked of them: processor time, and what goes into Kafka, for each of them and second. The leases of agents are renewed,
the log's time moves, and states are written.`
	case Growth:
		return `What a commit costs while one thing becomes more and the work stays what it is: some hundred turns a second
of clients that read and commit, each on shards of its own. Times are from when a turn was to begin. "most / first" is
the highest point over the first one; a line is flat if that is within 15 %, or within the spread of the runs. "At
rest" is the processor time of all processes while nobody asks for anything.`
	case ByPast:
		return `A workspace remembers what can still be taken back: up to 2,000 commits, or half of its max_kept bytes. Its
state row in hence-sequencer-table grows until then, to about 340 kB with small shards, and is written the less often
the larger it is. Behind some thousand transactions everything is to be flat.`
	case ByShards:
		return `The same 64 shards are worked on, beside more and more that nobody touches: what is there and not touched
is to cost nothing.`
	case ByUsed:
		return `Each commit works on any of the shards. A shard's row in hence-frontier-table is written once for all
changes of a second: as soon as there are more shards than commits a second, each commit writes one of its own. So this
line of records grows, by one at most.`
	case ByAgents:
		return `Agents that share a sidecar and do nothing. Each renews its lease, with one record in three seconds, or
one for 256 decisions where these come faster. So records and processor time grow with agents and time, and not with
commits: at the fixed rate of these turns that is a constant for each agent. A watching agent also sees each decision.`
	case ByWorkspaces:
		return `The same turns a second, spread over more workspaces that each have a sidecar in one process: fewer decisions
go together in one fetch, one produce request, one flush. Each workspace has its own leases and ticks, which cost by
time, and its own state row. So records grow with workspaces and time; at full load, where turns follow each other, the
subject workspaces shows what a commit costs.`
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
	for i, c := range r.curves() {
		if i == 0 {
			fmt.Fprintf(&b, "\n## Growth\n\n%s\n", explained(Growth))
		}
		fmt.Fprintf(&b, "\n### By %s\n\n%s\n\n", c.of, explained(c.of))
		head, rows := c.table()
		markdownTable(&b, head, rows)
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
