package processor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/meters"
	"github.com/hence-dev/hence/topology"
)

// Bounds of the JetStream stream: it serves late joiners, Kafka keeps everything.
const (
	streamMaxAge   = 24 * time.Hour
	streamMaxBytes = 128 << 20
	natsRetryIn    = 500 * time.Millisecond
)

// Bounds of what waits for the connection.
const (
	natsQueue      = 4096
	natsQueueBytes = 32 << 20
)

// natsOut publishes decisions. It never waits: what NATS does not take is in Kafka all the same.
type natsOut struct {
	conn    *nats.Conn // nil: no NATS
	metrics *meters.Meters
	log     string // its id
	// The connection holds its lock while it dials, and while a server that hangs does not read: seconds in which no
	// workspace would get a decision. So another goroutine hands it what to send.
	queue  chan *nats.Msg
	queued atomic.Int64 // bytes in it
}

func newNATSOut(conn *nats.Conn, m *meters.Meters, log string) *natsOut {
	return &natsOut{conn: conn, metrics: m, log: log, queue: make(chan *nats.Msg, natsQueue)}
}

// publish sends a decision to its workspace's subject, where subscribers get it at once and the stream keeps it; the
// message id lets the stream drop a second copy, from whichever processor. A zero time of the intent is not known.
func (n *natsOut) publish(d *message) {
	if n.conn == nil {
		// No NATS: followers read Kafka.
		return
	}
	o := d.outcome
	m := nats.NewMsg(topology.DecisionSubject(o.Workspace))
	m.Data = d.nats
	m.Header.Set(nats.MsgIdHdr, n.log+"/"+topology.DecisionMessageID(o.Workspace, o.Seq))
	m.Header.Set(topology.HeaderLog, n.log)
	m.Header.Set(topology.HeaderSeq, strconv.FormatUint(uint64(o.Seq), 10))
	m.Header.Set(topology.HeaderAtMs, strconv.FormatInt(d.at.UnixMilli(), 10))
	if ms := d.intent.UnixMilli(); ms > 0 {
		m.Header.Set(topology.HeaderIntentMs, strconv.FormatInt(ms, 10))
	}
	for _, h := range [][2]string{{topology.HeaderWorkspace, o.Workspace}, {topology.HeaderKind, o.Kind.String()},
		{topology.HeaderTx, string(o.Tx)}, {topology.HeaderAgent, o.Agent}, {topology.HeaderCode, string(o.Code)},
		{topology.HeaderTrace, d.trace}} {
		if h[1] != "" {
			m.Header.Set(h[0], h[1])
		}
	}
	size := int64(len(m.Data))
	if n.queued.Add(size) <= natsQueueBytes {
		select {
		case n.queue <- m:
			return
		default:
		}
	}
	n.queued.Add(-size)
	n.metrics.NatsRefused.Inc()
}

// send hands the connection what publish has queued, in its order, until end is closed and nothing is left.
func (n *natsOut) send(end <-chan struct{}) {
	for {
		select {
		case m := <-n.queue:
			n.hand(m)
		case <-end:
			for len(n.queue) > 0 {
				n.hand(<-n.queue)
			}
			return
		}
	}
}

func (n *natsOut) hand(m *nats.Msg) {
	n.queued.Add(-int64(len(m.Data)))
	if err := n.conn.PublishMsg(m); err != nil {
		// Counted and no more: a follower sees the gap and asks JetStream or Kafka.
		n.metrics.NatsRefused.Inc()
	}
}

// keepStream creates the stream, and again whenever NATS comes back, perhaps without it.
func (n *natsOut) keepStream(ctx context.Context, cfg streams.Config, changed <-chan struct{}) {
	if n.conn == nil {
		return
	}
	js, err := jetstream.New(n.conn)
	if err != nil {
		cfg.Logger.Error("JetStream cannot be used; Kafka alone serves late joiners", "error", err)
		return
	}
	for {
		var again <-chan time.Time
		if err := ensureStream(ctx, js, cfg, n.log); err != nil && ctx.Err() == nil {
			cfg.Logger.Debug("no decision stream yet", "error", err)
			again = cfg.Clock.After(natsRetryIn)
		}
		select {
		case <-ctx.Done():
			return
		// NATS came back, perhaps without its disks and so without the stream.
		case <-changed:
		case <-again:
		}
	}
}

// ensureStream creates the stream. One that is there and has another log's decisions is deleted: it can only mislead.
func ensureStream(ctx context.Context, js jetstream.JetStream, cfg streams.Config, log string) error {
	ctx, cancel := context.WithTimeout(ctx, natsRetryIn*4)
	defer cancel()
	storage := jetstream.FileStorage
	if cfg.MemoryStream {
		storage = jetstream.MemoryStorage
	}
	if was, err := js.Stream(ctx, topology.DecisionStream); err == nil {
		is := was.CachedInfo().Config
		other := is.Metadata[topology.MetadataLog]
		if other == log {
			// More copies than asked for were set by hand and stay.
			if is.Replicas >= cfg.NATSReplicas {
				return nil
			}
			is.Replicas = cfg.NATSReplicas
			if _, err := js.UpdateStream(ctx, is); err != nil {
				return fmt.Errorf("keep %d copies of the stream %s: %w", is.Replicas, topology.DecisionStream, err)
			}
			return nil
		}
		cfg.Logger.Warn("the decision stream is of another log and is recreated", "its", other, "ours", log)
		// Under the same workspaces and seqs it has decisions of another log: late joiners would take them for ours.
		if err := js.DeleteStream(ctx, topology.DecisionStream); err != nil {
			return fmt.Errorf("delete the stream %s of another log: %w", topology.DecisionStream, err)
		}
	}
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: topology.DecisionStream, Subjects: []string{topology.DecisionSubjects},
		Description: "decisions for late joiners; Kafka's hence.decisions is the source of truth",
		Retention:   jetstream.LimitsPolicy, Discard: jetstream.DiscardOld, Storage: storage,
		MaxAge: streamMaxAge, MaxBytes: streamMaxBytes, Duplicates: topology.DuplicateWindow, AllowDirect: true,
		Replicas: cfg.NATSReplicas, Metadata: map[string]string{topology.MetadataLog: log},
	})
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return fmt.Errorf("create the stream %s: %w", topology.DecisionStream, err)
	}
	if err == nil {
		cfg.Logger.Info("created the decision stream in NATS: earlier decisions are read from Kafka")
	}
	return nil
}

// message is an outcome in both of its forms, ready to be published.
type message struct {
	outcome *sequencer.Outcome
	intent  time.Time // when its record was appended; zero: not known
	at      time.Time // by our clock
	trace   string
	event   []byte // for Kafka
	nats    []byte
}
