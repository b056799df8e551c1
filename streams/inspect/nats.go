package inspect

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/pause"
)

// Bounds of what is no problem yet.
const (
	maxClockOff = 2 * time.Second // of another clock before it is told
	connectIn   = 3 * time.Second
	lookAgain   = 25 * time.Millisecond // for a connection that does not stand yet
	minPayload  = 1 << 20               // an answer, or a decision with its contents
)

// nats looks at the delivery plane.
func (i *inspection) nats(ctx context.Context, conn *nats.Conn) {
	f := &i.NATS
	if f.Configured = conn != nil; !f.Configured {
		i.problem("nats", "",
			"no NATS address is configured: decisions come by Kafka alone, and questions have no answer",
			"give --nats")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, inspectIn)
	defer cancel()
	if err := i.connected(ctx, conn); err != nil {
		f.Error = err.Error()
		i.problem("nats", "", f.Error,
			"start NATS, or give its address with --nats; decisions come by Kafka meanwhile, later")
		return
	}
	f.Connected, f.Server, f.Version = true, conn.ConnectedServerName(), conn.ConnectedServerVersion()
	if f.MaxPayload = conn.MaxPayload(); f.MaxPayload < minPayload {
		i.problem("nats", "", fmt.Sprintf("NATS takes messages of %d bytes", f.MaxPayload), "set max_payload to 1MB or more")
	}
	if err := i.stream(ctx, conn); err != nil {
		f.Error = err.Error()
	}
}

// connected waits for the connection.
func (i *inspection) connected(ctx context.Context, conn *nats.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, connectIn)
	defer cancel()
	for !conn.IsConnected() {
		if pause.Sleep(ctx, lookAgain) != nil {
			return i.cfg.NATSAway(conn)
		}
	}
	return nil
}

// stream looks at what JetStream keeps for late joiners.
func (i *inspection) stream(ctx context.Context, conn *nats.Conn) error {
	f := &i.NATS
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	if _, err := js.AccountInfo(ctx); err != nil {
		i.problem("nats", "", "NATS has no JetStream: late joiners read Kafka, more slowly: "+err.Error(),
			"start nats-server with -js, or allow the account to use it")
		return err
	}
	f.JetStream = true
	asked := i.cfg.Clock.Now()
	stream, err := js.Stream(ctx, topology.DecisionStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		i.problem("nats", "", "the stream "+topology.DecisionStream+" is not there",
			"hence streams creates it when it starts: start it, or start it again")
		return err
	}
	if err != nil {
		why := err
		if last := conn.LastError(); errors.Is(last, nats.ErrPermissionViolation) {
			why = last // which a question without rights meets as silence
		}
		i.problem("nats", "", "the stream "+topology.DecisionStream+" cannot be looked at: "+why.Error(),
			"give this user of NATS the rights to publish to $JS.API.> and to subscribe to _INBOX.>; if it has them, start "+
				"the NATS servers that keep the stream, a majority of its copies")
		return err
	}
	info := stream.CachedInfo()
	i.clock("NATS", asked, info.TimeStamp)
	c := info.Config
	f.Stream, f.OtherLog = true, i.Log != "" && c.Metadata[topology.MetadataLog] != i.Log
	f.Messages, f.Bytes, f.MaxBytes, f.MaxAge = info.State.Msgs, info.State.Bytes, c.MaxBytes, c.MaxAge
	f.Replicas, f.Storage = c.Replicas, c.Storage.String()
	if f.OtherLog {
		i.problem("nats", "", "the stream "+topology.DecisionStream+" has the decisions of another log",
			"hence streams recreates it; if two clusters share this NATS, give each one of its own")
	}
	i.publishersClock(ctx, stream, info)
	return nil
}

// clock notes another clock that was read between asked and now.
func (i *inspection) clock(whose string, asked, theirs time.Time) {
	if theirs.IsZero() {
		return
	}
	half := i.cfg.Clock.Now().Sub(asked) / 2
	i.Clocks = append(i.Clocks, ClockFact{Whose: whose, AheadMs: ms(theirs.Sub(asked.Add(half))), UncertainMs: ms(half)})
}

// publishersClock compares what the last publisher wrote on its message with when NATS took it.
func (i *inspection) publishersClock(ctx context.Context, stream jetstream.Stream, info *jetstream.StreamInfo) {
	if info.State.Msgs == 0 || len(i.Clocks) == 0 {
		return
	}
	last, err := stream.GetMsg(ctx, info.State.LastSeq)
	if err != nil {
		return
	}
	at, err := strconv.ParseInt(last.Header.Get(topology.HeaderAtMs), 10, 64)
	if err != nil {
		return
	}
	nats := i.Clocks[len(i.Clocks)-1]
	i.Clocks = append(i.Clocks, ClockFact{Whose: "the processor that published last",
		AheadMs: ms(time.UnixMilli(at).Sub(last.Time)) + nats.AheadMs, UncertainMs: nats.UncertainMs + 1})
}

// clocks tells those that are too far off. Nothing is decided by a clock; the times that people read are wrong.
func (i *inspection) clocks() {
	for _, c := range i.Clocks {
		if off := max(c.AheadMs, -c.AheadMs) - c.UncertainMs; off > ms(maxClockOff) {
			i.problem("clock", "", fmt.Sprintf("the clock of %s is %.1f s ahead of ours", c.Whose, c.AheadMs/1000),
				"run chrony or another NTP client on both machines")
		}
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
