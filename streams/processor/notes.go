package processor

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// folding begins the span of a record that is applied, if the record has a trace; the decisions that it leads to are
// below that span.
func (p *seqPartition) folding(parent, workspace string, in *sequencer.Intent) (traceparent string, span trace.Span) {
	if parent == "" || in == nil {
		return parent, trace.SpanFromContext(context.Background()) // one that notes nothing
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{topology.HeaderTrace: parent})
	ctx, span = p.cfg.Tracer.Start(ctx, "hence.fold", trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(attribute.String("hence.workspace", workspace), attribute.String("hence.tx", string(in.Tx)),
			attribute.String("hence.intent", in.Kind.String())))
	return streams.TraceOf(ctx), span
}

// maxNotes is how many transactions of a workspace are noted.
const maxNotes = 1024

// notes are what an owner remembers of transactions for people, beside the fold: it may be forgotten, and is when the
// owner changes.
type notes struct {
	of     map[sequencer.TxID]note
	order  []sequencer.TxID // the order in which they came; a ring once it is full
	oldest int
}

type note struct {
	trace string         // of the last record about it that had one
	began sequencer.Tick // zero: it was not this owner that saw it begin
}

// see notes a record about a transaction.
func (n *notes) see(in *sequencer.Intent, trace string, now sequencer.Tick) {
	if in == nil || in.Tx == "" {
		return
	}
	had, known := n.of[in.Tx]
	if !known {
		n.enter(in.Tx)
		if in.Begin != nil {
			had.began = max(now, 1)
		}
	}
	if trace != "" {
		had.trace = trace
	}
	n.of[in.Tx] = had
}

// enter makes space for one more.
func (n *notes) enter(tx sequencer.TxID) {
	if n.of == nil {
		n.of = make(map[sequencer.TxID]note)
	}
	if len(n.order) < maxNotes {
		n.order = append(n.order, tx)
		return
	}
	// Bounded: it only serves people, and must not grow with the log.
	delete(n.of, n.order[n.oldest])
	n.order[n.oldest] = tx
	n.oldest = (n.oldest + 1) % maxNotes
}

// traceOf is the trace of an outcome: of its transaction, or of the record that led to it.
func (n *notes) traceOf(o *sequencer.Outcome, of *sequencer.Intent, trace string) string {
	if o.Tx == "" || trace != "" && of != nil && of.Tx == o.Tx {
		return trace
	}
	return n.of[o.Tx].trace
}
