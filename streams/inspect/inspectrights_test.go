package inspect_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/topology"
)

// Who may not describe groups is told a command that gives just that: with the broker, and with who it is for.
func TestInspectWithoutRights(t *testing.T) {
	all := func(of kmsg.ACLResourceType, name string) kfake.ACL {
		return kfake.ACL{Resource: of, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral,
			Operation: kmsg.ACLOperationAll, Allow: true}
	}
	kafka, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.Superuser("PLAIN", "root", "rosebud"), kfake.User("PLAIN", "hence", "open sesame",
			all(kmsg.ACLResourceTypeTopic, "*"), all(kmsg.ACLResourceTypeCluster, "kafka-cluster")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	w := &teststreams.World{T: t, Cfg: streams.Config{Brokers: kafka.ListenAddrs(), Partitions: 1,
		Kafka: streams.Security{SASL: "plain", User: "hence",
			PasswordFile: teststreams.SecretFile(t, "kafka", "open sesame\n")}}}
	if err := streams.EnsureTopics(t.Context(), w.Cfg); err != nil {
		t.Fatal(err)
	}
	_, said := w.Inspect(w.Cfg)
	group := topology.GroupOf(topology.GroupSequencer, "")
	want := "kafka-acls.sh --bootstrap-server " + kafka.ListenAddrs()[0] + " --command-config FILE --add " +
		"--allow-principal User:hence --operation Describe --group " + group + "\n"
	if !strings.Contains(said, want) {
		t.Errorf("%q is not said:\n%s", want, said)
	}
}

// The offsets of the command that clears parked records are those behind the records that were there.
func TestInspectParked(t *testing.T) {
	w := teststreams.New(t)
	cl := w.Kafka()
	w.Put(cl, topology.TopicParked, "shop", []byte("x"))
	w.Put(cl, topology.TopicParked, "shop", []byte("y"))
	r, said := w.Inspect(w.Cfg)
	if r.Parked != 2 || !strings.Contains(said, `"offset":2}]}' > parked.json && kafka-delete-records.sh --boot`) {
		t.Errorf("%d parked:\n%s", r.Parked, said)
	}
	to := make(kadm.Offsets)
	to.AddOffset(topology.TopicParked, topology.PartitionOf("shop", 2), 2, -1)
	if deleted, err := kadm.NewClient(cl).DeleteRecords(t.Context(), to); err != nil || deleted.Error() != nil {
		t.Fatal(err, deleted.Error())
	}
	if r, said := w.Inspect(w.Cfg); r.Parked != 0 || strings.Contains(said, "kcat") {
		t.Errorf("%d parked when they are cleared:\n%s", r.Parked, said)
	}
}
