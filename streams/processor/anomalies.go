package processor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/lovoo/goka"
	"github.com/nats-io/nats.go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sequencer/anomaly"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/history"
)

// What an owner reads again of a partition when it is given one, and what it holds of it.
const (
	warmPerOp   = 16      // records of hence.decisions for each operation of the window
	warmLeast   = 1 << 12 // of them at least
	warmMost    = 1 << 17 // and at most
	warmIntents = 1 << 12 // records of hence.intents before the first of these decisions
	maxEarly    = 1 << 13 // intents of a workspace that came before its first decision
	heldMost    = 1 << 18 // operations of a partition; beyond it workspaces that rest are forgotten
	scopesMost  = 1 << 17 // scopes of a workspace of which values are known; beyond it values are forgotten
)

// anomalyProcessor looks for anomalies among the last operations of each workspace and publishes what it finds. It has
// no table: what it holds is the end of the log, which a new owner reads again without publishing.
//
// A record of hence.decisions is let go when Kafka has what was found in it. So a crash may publish a finding again,
// under the same id, and loses none.
type anomalyProcessor struct {
	*base
	conn *nats.Conn

	parts map[int32]*anomalyPart // guarded by base.mu
}

// anomalyPart is one owned partition.
type anomalyPart struct {
	*anomalyProcessor
	partition int32

	mu         sync.Mutex
	intents    *streams.Reader // as far as the decisions that were judged; nil: nothing was read yet
	workspaces map[string]*watched
	held       int    // operations of all of them
	turn       uint64 // counts the decisions
	left       bool   // it is not ours any more
}

// watched is what is held of one workspace.
type watched struct {
	seq    sequencer.Seq    // of the last decision that was taken
	early  []offsetIntent   // before the first decision
	ops    *history.Builder // nil: there was no decision yet, or they were forgotten
	window *anomaly.Window  // nil: as ops
	turn   uint64           // of the last decision, among all of the partition
}

type offsetIntent struct {
	offset int64
	*sequencer.Intent
}

func newAnomalyProcessor(b *base, conn *nats.Conn) *anomalyProcessor {
	b.name, b.group, b.patient = "anomalies", topology.GroupOf(topology.GroupAnomalies, b.cfg.Replica), true
	return &anomalyProcessor{base: b, conn: conn, parts: make(map[int32]*anomalyPart)}
}

func (a *anomalyProcessor) common() *base { return a.base }

func (a *anomalyProcessor) graph() *goka.GroupGraph {
	return goka.DefineGroup(goka.Group(a.group),
		goka.Input(goka.Stream(topology.TopicDecisions), rawCodec{}, a.decision),
		goka.Output(goka.Stream(topology.TopicAnomalies), rawCodec{}),
		goka.Output(goka.Stream(topology.TopicParked), rawCodec{}))
}

func (a *anomalyProcessor) gained(int32, *tableStore) error          { return nil } // it has no table
func (a *anomalyProcessor) merge(string, []byte, int64, *tableStore) {}

func (a *anomalyProcessor) dropped(bool) {
	// Goka's callbacks have ended; questions have not.
	a.mu.Lock()
	parts := slices.Collect(maps.Values(a.parts))
	clear(a.parts)
	a.mu.Unlock()
	for _, p := range parts {
		p.close()
	}
}

func (a *anomalyProcessor) keep(ctx context.Context) {
	a.hear(ctx, a.conn, topology.AskLevel, func(m *nats.Msg) {
		a.answerIf(m, func(partition int32) bool { return a.owns(ctx, partition) }, a.level)
	})
}

// owns reports whether a partition is this process's, and reads what it must know of it.
func (a *anomalyProcessor) owns(ctx context.Context, partition int32) bool {
	a.work.mu.Lock()
	claim := a.work.claims[place{topology.TopicDecisions, partition}]
	a.work.mu.Unlock()
	if claim == nil {
		return false
	}
	p := a.part(partition)
	// While records come, the callback holds it; both may be the first.
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open(ctx, claim.InitialOffset()) == nil
}

// part is a partition's, made where there is none.
func (a *anomalyProcessor) part(partition int32) *anomalyPart {
	// Goka takes partitions on another goroutine than those of callbacks and questions.
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.parts[partition]
	if p == nil {
		p = &anomalyPart{anomalyProcessor: a, partition: partition, workspaces: make(map[string]*watched)}
		a.parts[partition] = p
	}
	return p
}

// decision takes one record of hence.decisions.
func (a *anomalyProcessor) decision(ctx goka.Context, msg any) {
	rec := recordOf(ctx)
	o := a.readDecision(rec, bytesOf(msg))
	if o == nil {
		return
	}
	p := a.part(ctx.Partition())
	// Between two questions.
	p.mu.Lock()
	err := p.open(ctx.Context(), ctx.Offset())
	var found []topology.Anomaly
	if err == nil {
		found, err = p.take(ctx.Context(), o)
	}
	p.mu.Unlock()
	if err != nil {
		a.fail(fmt.Errorf("look for anomalies in %s/%d: %w", topology.TopicDecisions, p.partition, err))
		refuse(rec)
		return
	}
	for i := range found {
		a.publish(rec, &found[i])
	}
}

// publish writes a finding, and keeps its decision from being committed until Kafka has it.
func (a *anomalyProcessor) publish(rec *tracked, found *topology.Anomaly) {
	a.metrics.Anomalies.WithLabelValues(found.Kind, strconv.FormatBool(found.Certain)).Inc()
	value, err := topology.EncodeAnomaly(found, rec.Timestamp())
	if err != nil { // its witness is in the decisions all the same
		a.cfg.Logger.Error("an anomaly cannot be written", "workspace", found.Workspace, "seq", found.Seq, "error", err)
		return
	}
	record := &kgo.Record{Topic: topology.TopicAnomalies, Key: []byte(found.Workspace), Value: value}
	for _, h := range topology.AnomalyHeaders(found) {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.Key, Value: []byte(h.Value)})
	}
	rec.ledger.hold(rec.entry)
	a.out.send(record, func(_ *kgo.Record, err error) {
		if err != nil { // the decision stays held: the next run finds it again
			a.fail(fmt.Errorf("write an anomaly of %s: %w", found.Workspace, err))
			return
		}
		rec.ledger.release(rec.entry)
	})
}

// open reads what lies before an offset of hence.decisions, once: as much as the window may need. mu is held.
func (p *anomalyPart) open(ctx context.Context, at int64) error {
	switch {
	case p.left: // a question came too late: what it read would stay open
		return errNotOurs
	case p.intents != nil:
		return nil
	}
	warm := int64(min(max(p.cfg.Anomalies*warmPerOp, warmLeast), warmMost))
	var before []*sequencer.Outcome
	err := p.cfg.ReadRange(ctx, topology.TopicDecisions, p.partition, max(at-warm, 0), at, func(r *kgo.Record) error {
		if o, err := topology.DecodeCloudEvent(r.Value); err == nil && o.Workspace == string(r.Key) {
			before = append(before, o)
		}
		return nil
	})
	if err != nil {
		return err
	}
	from := int64(0)
	if len(before) > 0 {
		first := slices.MinFunc(before, func(a, b *sequencer.Outcome) int { return cmp.Compare(a.Offset, b.Offset) })
		from = max(first.Offset-warmIntents, 0)
	}
	if p.intents, err = p.cfg.Reader(topology.TopicIntents, p.partition, from); err != nil {
		return err
	}
	for _, o := range before {
		// Their findings were published, or are under an offset that comes again.
		if _, err := p.take(ctx, o); err != nil {
			p.shut()
			return err
		}
	}
	return nil
}

// shut forgets all of it; mu is held.
func (p *anomalyPart) shut() {
	if p.intents != nil {
		p.intents.Close()
	}
	p.intents, p.held = nil, 0
	clear(p.workspaces)
}

func (p *anomalyPart) close() {
	// A question may be reading here.
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut()
	p.left = true
}

// take brings what is held to a decision, and returns what it completes; mu is held. A copy, or one that comes behind
// later ones, brings nothing.
func (p *anomalyPart) take(ctx context.Context, o *sequencer.Outcome) ([]topology.Anomaly, error) {
	w := p.workspaces[o.Workspace]
	if w != nil && o.Seq <= w.seq {
		return nil, nil
	}
	// What it follows from comes first; the log has it, for the decision is there.
	if err := p.intents.To(ctx, o.Offset+1, p.intent); err != nil {
		return nil, err
	}
	if w = p.workspaces[o.Workspace]; w == nil { // its intent is not kept any more
		w = p.begin(o.Workspace)
	}
	if w.ops == nil || w.ops.Held() > scopesMost {
		w.ops = history.New(o.Seq - 1)
		for _, in := range w.early {
			w.ops.Intent(in.offset, in.Intent)
		}
		w.early = nil
	}
	if w.window == nil {
		w.window = anomaly.NewWindow(p.cfg.Anomalies, uint64(o.Seq)-1)
	}
	p.turn++
	w.seq, w.turn = o.Seq, p.turn
	var all []topology.Anomaly
	if o.Kind == sequencer.OutcomeRetracting { // all of the cone is taken back, though one by one
		names := make([]string, len(o.Cone))
		for i, tx := range o.Cone {
			names[i] = string(tx)
		}
		h, found := w.window.Abort(names...)
		all = w.told(o, h, found)
	}
	for _, r := range w.ops.Decision(o) {
		had := w.window.Len()
		h, found, known := w.window.Add(r.Op(0))
		p.held += w.window.Len() - had
		if !known {
			p.metrics.Judged.Inc()
		}
		all = append(all, w.told(o, h, found)...)
	}
	p.forget()
	return all, nil
}

func (p *anomalyPart) begin(workspace string) *watched {
	w := &watched{}
	p.workspaces[workspace] = w
	return w
}

// intent takes an intent, before the decisions that follow from it.
func (p *anomalyPart) intent(r *kgo.Record) error {
	in, err := topology.DecodeIntent(r.Value)
	if err != nil || in.Seal == nil && in.Register == nil {
		return nil // the sequencer parks what cannot be read, and of the others no operation is made
	}
	w := p.workspaces[string(r.Key)]
	if w == nil {
		w = p.begin(string(r.Key))
	}
	if w.ops != nil {
		w.ops.Intent(r.Offset, in)
		return nil
	}
	w.early = append(w.early, offsetIntent{r.Offset, in})
	if len(w.early) > maxEarly {
		w.early = w.early[1:]
	}
	return nil
}

// forget lets go what is held of workspaces that rest, when the partition holds too much; mu is held. Their seqs stay:
// a late copy would else begin a window of its own.
func (p *anomalyPart) forget() {
	for p.held > max(heldMost, 2*p.cfg.Anomalies) {
		oldest := ""
		for name, w := range p.workspaces {
			if w.window != nil && (oldest == "" || w.turn < p.workspaces[oldest].turn) {
				oldest = name
			}
		}
		w := p.workspaces[oldest]
		p.held -= w.window.Len()
		w.window, w.ops = nil, nil // the next decision begins others
	}
}

// told are findings as they are published.
func (w *watched) told(o *sequencer.Outcome, h *anomaly.History, found []anomaly.Finding) []topology.Anomaly {
	all := make([]topology.Anomaly, len(found))
	for i := range found {
		f := &found[i]
		all[i] = topology.Anomaly{Workspace: o.Workspace, Seq: o.Seq, Kind: f.Kind.String(), Title: f.Kind.Title(),
			Certain: f.Certain, Sentence: h.Sentence(f), Cell: f.Cell, OtherCell: f.Cell2, Count: f.Count, Class: f.Class(),
			Window: w.window.Size(), Would: o.Would}
		for _, record := range f.Records[:min(len(f.Records), topology.MaxAnomalyOps)] {
			who := h.Who(record)
			all[i].Operations = append(all[i].Operations, topology.AnomalyOp{Tx: sequencer.TxID(who.Txn), Agent: who.Agent,
				ReadTime: sequencer.Seq(who.ReadTime), WriteTime: sequencer.Seq(who.WriteTime), Aborted: who.Aborted})
		}
	}
	return all
}

// level answers what the window of a workspace leaves.
func (a *anomalyProcessor) level(q question) ([]byte, error) {
	p := a.part(topology.PartitionOf(q.workspace, a.cfg.Partitions))
	// The window changes with each decision.
	p.mu.Lock()
	defer p.mu.Unlock()
	level := topology.AnomalyLevel{Workspace: q.workspace, Window: a.cfg.Anomalies}
	h := anomaly.NewHistory(0)
	if w := p.workspaces[q.workspace]; w != nil && w.window != nil {
		h, level.Seq, level.Since = w.window.History(), w.seq, sequencer.Seq(w.window.Since())
	}
	r := h.Check()
	least, most := r.Points()
	level.Operations, level.Aborted, level.Spanning = r.Ops, r.Aborted, r.Spanning
	level.OwnOverlaps = r.OwnOverlaps
	level.Least, level.Most, level.Serializable = least.Level(), most.Level(), r.Serializable()
	level.PointLeast, level.PointMost = least.String(), most.String()
	for _, kind := range anomaly.Kinds() {
		level.Kinds = append(level.Kinds, topology.AnomalyCount{Kind: kind.String(), Title: kind.Title()})
	}
	for i := range r.Findings {
		count := &level.Kinds[slices.Index(anomaly.Kinds(), r.Findings[i].Kind)]
		if r.Findings[i].Certain {
			count.Certain++
		} else {
			count.Possible++
		}
	}
	level.Undecided = []topology.AnomalyUndecided{}
	for _, u := range r.Undecided {
		level.Undecided = append(level.Undecided, topology.AnomalyUndecided{Kind: u.Kind.String(), Count: u.Count,
			Why: u.Why})
	}
	return json.Marshal(level)
}
