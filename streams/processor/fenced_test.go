package processor_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// member is one of a consumer group by hand, so that it can do what a library of ours would not.
type member struct {
	t          *testing.T
	cl         *kgo.Client
	group, id  string
	instance   *string
	generation int32
}

// join makes a member of the group's next generation, or takes the place of the one with the same instance.
func (m *member) join() {
	m.t.Helper()
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.InstanceID, req.ProtocolType = m.group, m.instance, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 30_000, 1_000
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name = "by hand"
	req.Protocols = append(req.Protocols, protocol)
	resp, err := req.RequestWith(m.t.Context(), m.cl)
	if err == nil && resp.ErrorCode == kerr.MemberIDRequired.Code {
		req.MemberID = resp.MemberID
		resp, err = req.RequestWith(m.t.Context(), m.cl)
	}
	if err := errors.Join(err, kerr.ErrorForCode(resp.ErrorCode)); err != nil {
		m.t.Fatalf("join: %v", err)
	}
	m.id, m.generation = resp.MemberID, resp.Generation
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.InstanceID, sync.MemberID, sync.Generation = m.group, m.instance, m.id, m.generation
	sync.ProtocolType, sync.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("by hand")
	synced, err := sync.RequestWith(m.t.Context(), m.cl)
	if err := errors.Join(err, kerr.ErrorForCode(synced.ErrorCode)); err != nil {
		m.t.Fatalf("sync: %v", err)
	}
}

// commit commits an offset with metadata, as the owner of a partition does.
func (m *member) commit(offset int64, metadata string) error {
	m.t.Helper()
	partition := kmsg.NewOffsetCommitRequestTopicPartition()
	partition.Offset, partition.Metadata = offset, &metadata
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic, topic.Partitions = topology.TopicDecisions, append(topic.Partitions, partition)
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.InstanceID, req.MemberID, req.Generation = m.group, m.instance, m.id, m.generation
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(m.t.Context(), m.cl)
	if err != nil {
		m.t.Fatalf("commit: %v", err)
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

// What markers rest on: Kafka takes a committed offset, with what stands beside it, from no former owner: neither from
// one of a generation before, nor from one whose place another process of its name has taken, nor from one that says
// it is in no group. It stands on an embedded Kafka, or on that of HENCE_TEST_KAFKA.
func TestFormerOwnerCommitsNoMarker(t *testing.T) {
	brokers := strings.Split(os.Getenv("HENCE_TEST_KAFKA"), ",")
	if brokers[0] == "" {
		brokers = teststreams.New(t).Servers.Brokers
	}
	if err := streams.EnsureTopics(t.Context(), streams.Config{Brokers: brokers, Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.MaxVersions(kversion.V3_0_0())) // topics by their names
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	instance := kmsg.StringPtr("one")
	for name, as := range map[string]*string{"of a former generation": nil, "of the same name": instance} {
		t.Run(name, func(t *testing.T) {
			group := fmt.Sprintf("fenced-%s-%d", strings.Fields(name)[2], time.Now().UnixNano())
			marker := func(from int64) string { return topology.Marker{Table: "t", From: from}.String() }
			holds := func(from int64) {
				t.Helper()
				of, err := streams.CommittedOf(t.Context(), cl, group, topology.TopicDecisions, 0)
				if m, ok := topology.ParseMarker(of.Metadata); err != nil || !ok || m.From != from {
					t.Errorf("the marker is %q at offset %d, want %d (%v)", of.Metadata, of.Offset, from, err)
				}
			}
			former := &member{t: t, cl: cl, group: group, instance: as}
			former.join()
			if err := former.commit(10, marker(1)); err != nil {
				t.Fatal(err)
			}
			holds(1)
			heir := &member{t: t, cl: cl, group: group, instance: as}
			heir.join()
			late := func() {
				t.Helper()
				if err := former.commit(1000, marker(1000)); err == nil {
					t.Error("the former owner committed a marker")
				} else {
					t.Logf("refused: %v", err)
				}
				nobody := &member{t: t, cl: cl, group: group, generation: -1}
				if err := nobody.commit(1000, marker(1000)); err == nil {
					t.Error("who is in no group committed a marker")
				}
			}
			late()
			holds(1)
			if err := heir.commit(20, marker(7)); err != nil {
				t.Fatal(err)
			}
			late()
			holds(7)
		})
	}
}
