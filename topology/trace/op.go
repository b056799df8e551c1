package trace

import (
	"slices"

	"github.com/hence-dev/hence/sequencer/anomaly"
)

// Op is the record as detectors take it; line is where it stands in its file.
func (r *Record) Op(line int) anomaly.Op {
	o := anomaly.Op{Line: line, Name: string(r.Txn), Agent: r.Agent, ReadTime: r.ReadTime, WriteTime: r.WriteTime,
		Aborted: !r.TookEffect(), HasPreds: r.Preds != nil}
	for _, cell := range r.ReadSet {
		at, timed := r.ReadTimes[cell]
		o.Reads = append(o.Reads, anomaly.Read{Cell: cell, Value: string(r.ReadValues[cell]), Replica: r.Replica[cell],
			Version: string(r.Version[cell]), Time: at, Timed: timed})
	}
	for _, cell := range r.WriteSet {
		o.Writes = append(o.Writes, anomaly.Write{Cell: cell, Value: string(r.WriteValues[cell])})
	}
	for _, pred := range r.Preds {
		o.Preds = append(o.Preds, string(pred))
	}
	o.Plan = r.plan()
	o.Order = anomaly.Order{IssuedKnown: r.IO != nil, Issued: ordered(r.IO),
		HappenedKnown: r.CO != nil, Happened: ordered(r.CO)}
	return o
}

// plan is what the record says of its planned tool. A registry is its list of names, or else the names of its
// signatures.
func (r *Record) plan() anomaly.Plan {
	tool := r.PlannedTool.Tool
	p := anomaly.Plan{Known: r.PlannedTool.Known, Tool: tool, Used: listed(r.ToolsUsed, tool),
		AtRead: listed(r.ToolsVisibleAtRead, tool), AtWrite: listed(r.ToolsVisibleAtWrite, tool)}
	before, pinned := r.ToolSignaturesAtRead[tool]
	after, there := r.ToolSignaturesAtWrite[tool]
	if p.AtRead == anomaly.Unknown && r.ToolSignaturesAtRead != nil {
		p.AtRead = yes(pinned)
	}
	if p.AtWrite == anomaly.Unknown && r.ToolSignaturesAtWrite != nil {
		p.AtWrite = yes(there)
	}
	p.ChangedSince = pinned && r.ToolSignaturesAtWrite != nil && (!there || after != before)
	return p
}

func listed(list []string, tool string) anomaly.Seen {
	if list == nil {
		return anomaly.Unknown
	}
	return yes(slices.Contains(list, tool))
}

func yes(is bool) anomaly.Seen {
	if is {
		return anomaly.Yes
	}
	return anomaly.No
}

func ordered(effects []Effect) []anomaly.Write {
	if effects == nil {
		return nil
	}
	all := make([]anomaly.Write, len(effects))
	for i, e := range effects {
		all[i] = anomaly.Write{Cell: e.Cell, Value: string(e.Value)}
	}
	return all
}
