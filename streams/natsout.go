package streams

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hence-dev/hence/topology"
)

// Headers of a decision's message on NATS.
const (
	headerSeq  = "Hence-Seq"
	headerAtMs = "Hence-At-Ms" // the publisher's clock; only where to begin to look in Kafka rests on these two

	// headerIntentMs is when the intent was appended, by the clock of who did; left away where that is not known.
	headerIntentMs = "Hence-Intent-Ms"

	// For people, since the body is MessagePack; left away where empty. The workspace's is headerWorkspace.
	headerKind  = "Hence-Kind"
	headerTx    = "Hence-Tx"
	headerAgent = "Hence-Agent"
	headerCode  = "Hence-Code"
)

// Bounds of the JetStream stream: it serves late joiners, Kafka keeps everything.
const (
	streamMaxAge   = 24 * time.Hour
	streamMaxBytes = 128 << 20
	natsReconnect  = 100 * time.Millisecond
	natsRetryIn    = 500 * time.Millisecond
)

// dialNATS connects in the background and for ever; an empty URL is no connection at all.
func (c Config) dialNATS(changed func()) (*nats.Conn, error) {
	if c.NATS == "" {
		return nil, nil
	}
	notify := func(*nats.Conn) { changed() }
	opts, err := c.NATSAuth.options()
	if err != nil {
		return nil, fmt.Errorf("%w: NATS: %w", ErrConfig, err)
	}
	conn, err := nats.Connect(c.NATS, append(opts, nats.Name("hence-"+c.Instance), nats.RetryOnFailedConnect(true),
		nats.IgnoreAuthErrorAbort(), nats.MaxReconnects(-1), nats.ReconnectWait(natsReconnect),
		nats.ReconnectJitter(natsReconnect, natsReconnect),
		nats.ConnectHandler(notify), nats.ReconnectHandler(notify),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { changed() }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			c.Logger.Debug("NATS", "error", err) // a slow subscription shows as a gap, which Follow closes
		}))...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS at %s: %w", c.NATS, err)
	}
	return conn, nil
}

// natsOut publishes decisions. It never waits: what NATS does not take is in Kafka all the same.
type natsOut struct {
	conn    *nats.Conn // nil: no NATS
	metrics *metrics
	log     string // its id
}

// publish sends a decision to its workspace's subject, where subscribers get it at once and the stream keeps it; the
// message id lets the stream drop a second copy, from whichever processor. A zero time of the intent is not known.
func (n natsOut) publish(d *message) {
	if n.conn == nil {
		return
	}
	o := d.outcome
	m := nats.NewMsg(topology.DecisionSubject(o.Workspace))
	m.Data = d.nats
	m.Header.Set(nats.MsgIdHdr, n.log+"/"+topology.DecisionMessageID(o.Workspace, o.Seq))
	m.Header.Set(headerLog, n.log)
	m.Header.Set(headerSeq, strconv.FormatUint(uint64(o.Seq), 10))
	m.Header.Set(headerAtMs, strconv.FormatInt(d.at.UnixMilli(), 10))
	if ms := d.intent.UnixMilli(); ms > 0 {
		m.Header.Set(headerIntentMs, strconv.FormatInt(ms, 10))
	}
	for _, h := range [][2]string{{headerWorkspace, o.Workspace}, {headerKind, o.Kind.String()},
		{headerTx, string(o.Tx)}, {headerAgent, o.Agent}, {headerCode, string(o.Code)}, {headerTrace, d.trace}} {
		if h[1] != "" {
			m.Header.Set(h[0], h[1])
		}
	}
	if err := n.conn.PublishMsg(m); err != nil {
		n.metrics.natsRefused.Inc()
	}
}

// keepStream creates the stream, and again whenever NATS comes back, perhaps without it.
func (n natsOut) keepStream(ctx context.Context, cfg Config, changed <-chan struct{}) {
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
		case <-changed:
		case <-again:
		}
	}
}

// ensureStream creates the stream. One that is there and has another log's decisions makes room: it can only mislead.
func ensureStream(ctx context.Context, js jetstream.JetStream, cfg Config, log string) error {
	ctx, cancel := context.WithTimeout(ctx, natsRetryIn*4)
	defer cancel()
	storage := jetstream.FileStorage
	if cfg.MemoryStream {
		storage = jetstream.MemoryStorage
	}
	if was, err := js.Stream(ctx, topology.DecisionStream); err == nil {
		is := was.CachedInfo().Config
		other := is.Metadata[metadataLog]
		if other == log {
			if is.Replicas >= cfg.NATSReplicas {
				return nil
			}
			is.Replicas = cfg.NATSReplicas
			if _, err := js.UpdateStream(ctx, is); err != nil {
				return fmt.Errorf("keep %d copies of the stream %s: %w", is.Replicas, topology.DecisionStream, err)
			}
			return nil
		}
		cfg.Logger.Warn("the decision stream is of another log and is created anew", "its", other, "ours", log)
		if err := js.DeleteStream(ctx, topology.DecisionStream); err != nil {
			return fmt.Errorf("delete the stream %s of another log: %w", topology.DecisionStream, err)
		}
	}
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: topology.DecisionStream, Subjects: []string{topology.DecisionSubjects},
		Description: "decisions for late joiners; Kafka's hence.decisions is the source of truth",
		Retention:   jetstream.LimitsPolicy, Discard: jetstream.DiscardOld, Storage: storage,
		MaxAge: streamMaxAge, MaxBytes: streamMaxBytes, Duplicates: topology.DuplicateWindow, AllowDirect: true,
		Replicas: cfg.NATSReplicas, Metadata: map[string]string{metadataLog: log},
	})
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return fmt.Errorf("create the stream %s: %w", topology.DecisionStream, err)
	}
	if err == nil {
		cfg.Logger.Info("NATS had no decision stream, it is created: what was decided before is read from Kafka")
	}
	return nil
}
