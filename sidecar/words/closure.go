package words

import (
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology"
)

// Closure is what a transaction rests on as the API writes it.
func Closure(c *topology.Closure) *api.Closure {
	out := &api.Closure{Tx: string(c.Tx), Truncated: c.Truncated, Limit: c.Limit}
	for i := range c.Rows {
		out.Rows = append(out.Rows, closureRow(&c.Rows[i]))
	}
	return out
}

// ExplainRow explains a transaction as far as its row knows it.
func ExplainRow(workspace string, row *topology.ClosureRow) *api.Explain {
	r := closureRow(row)
	d := api.Decision{Tx: r.Tx, Workspace: workspace, Seq: r.Seq, Code: r.Code, Final: row.Final,
		Retraction: string(row.Retraction), Undone: r.Status == api.RetractDone, State: api.StateOpen}
	switch {
	case r.Seq != 0 && r.Code == "":
		d.State = api.StateCommitted
	case r.Seq != 0:
		d.State = api.StateAborted
	case r.Status == api.StateSealed:
		d.State = api.StateSealed
	}
	out := &api.Explain{Decision: d, Writes: r.Writes}
	for _, e := range r.Edges {
		out.Reads = append(out.Reads, e.Scope)
	}
	out.Paragraph = Sentence(&d) + " That is what the closure table keeps; hence tail --tx " + r.Tx +
		" shows all that was said."
	return out
}

func closureRow(r *topology.ClosureRow) api.ClosureRow {
	out := api.ClosureRow{Tx: string(r.Tx), Agent: r.Agent, Status: r.Status, Code: string(r.Code),
		Seq: uint64(r.Seq), Scar: r.Scar}
	for _, e := range r.Edges {
		out.Edges = append(out.Edges, api.ClosureEdge{Scope: string(e.Scope), Writer: string(e.Writer),
			Version: uint64(e.Version), View: uint64(e.View)})
	}
	for _, id := range r.RestsOn {
		out.RestsOn = append(out.RestsOn, string(id))
	}
	for _, scope := range r.Writes {
		out.Writes = append(out.Writes, string(scope))
	}
	return out
}
