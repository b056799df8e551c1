package processor

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/lovoo/goka"

	"github.com/hence-dev/hence/streams"
)

// The effective settings of goka's consumers.
func TestGokaSettings(t *testing.T) {
	cfg, err := streams.Config{Brokers: []string{"127.0.0.1:1"}, Instance: "one"}.Checked()
	if err != nil {
		t.Fatal(err)
	}
	s := saramaConfig(cfg, "hence-sequencer")
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	for setting, ok := range map[string]bool{
		"oldest offset":     s.Consumer.Offsets.Initial == sarama.OffsetOldest,
		"auto commit":       s.Consumer.Offsets.AutoCommit.Enable,
		"commit interval":   s.Consumer.Offsets.AutoCommit.Interval == 200*time.Millisecond,
		"static membership": s.Consumer.Group.InstanceId == "one-hence-sequencer" && s.Version.IsAtLeast(sarama.V2_3_0_0),
		"heartbeat":         s.Consumer.Group.Heartbeat.Interval == 500*time.Millisecond,
		"session":           s.Consumer.Group.Session.Timeout == 6*time.Second,
		"copartitioned":     s.Consumer.Group.Rebalance.GroupStrategies[0] == goka.StrictCopartitioningStrategy,
		"acks":              s.Producer.RequiredAcks == sarama.WaitForAll,
		"a copy each":       s != saramaConfig(cfg, "hence-sequencer"),
	} {
		if !ok {
			t.Errorf("%s is not as it must be", setting)
		}
	}
	cfg.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errDone }
	if p := saramaConfig(cfg, "g").Net.Proxy; !p.Enable {
		t.Error("consumers do not connect with Dial")
	} else if _, err := p.Dialer.Dial("tcp", "127.0.0.1:1"); !errors.Is(err, errDone) {
		t.Errorf("consumers connect with another Dial: %v", err)
	}
	if tm := topicManagerConfig(3); !tm.NoCreate || tm.Table.Replication != 3 || tm.Stream.Replication != 3 {
		t.Errorf("goka's topic manager may create topics: %+v", tm)
	}
}
