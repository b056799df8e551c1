package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// brokers notes the brokers that are there; false: none is.
func (i *inspection) brokers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, inspectIn)
	defer cancel()
	meta, err := i.admin.BrokerMetadata(ctx)
	if err != nil {
		i.problem("brokers", "", i.cfg.KafkaAway(err).Error(), "start Kafka, or give its address with --brokers")
		return false
	}
	i.ClusterID = meta.Cluster
	versions, _ := i.admin.ApiVersions(ctx) // what it lacks shows below
	for _, b := range meta.Brokers {
		f := BrokerFact{ID: b.NodeID, Address: fmt.Sprintf("%s:%d", b.Host, b.Port)}
		switch v, ok := versions[b.NodeID]; {
		case !ok:
			f.Error = "it does not answer"
		case v.Err != nil:
			f.Error = v.Err.Error()
		default:
			f.Version = v.VersionGuess()
		}
		if f.Error != "" {
			i.problem("brokers", "", fmt.Sprintf("broker %d at %s cannot be reached: %s", f.ID, f.Address, f.Error),
				"start it, or make the address that it advertises reachable from here")
		}
		i.Brokers = append(i.Brokers, f)
	}
	return true
}

// topics compares our topics with what they must be.
func (i *inspection) topics(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, inspectIn)
	defer cancel()
	problems, err := streams.VerifyTopics(ctx, i.cfg)
	if err != nil {
		i.problem("topics", "", err.Error(), "check the brokers' logs, and this user's right to describe topics")
	}
	i.Problems = append(i.Problems, problems...)
	want := i.cfg.Topics()
	names := make([]string, 0, len(want))
	for _, t := range want {
		names = append(names, t.Name)
	}
	there, err := i.admin.ListTopics(ctx, names...)
	if err != nil {
		return // said already
	}
	settings, _ := i.admin.DescribeTopicConfigs(ctx, names...)
	for _, t := range want {
		found, _ := settings.On(t.Name, nil)
		i.topic(t, there[t.Name], found.Configs)
	}
	if d := there[topology.TopicIntents]; d.Err == nil && d.ID != (kadm.TopicID{}) {
		i.Log = d.ID.String()
	}
}

// topic notes one topic and what its partitions lack.
func (i *inspection) topic(want topology.Topic, is kadm.TopicDetail, settings []kadm.Config) {
	f := TopicFact{Name: want.Name, Settings: make(map[string]string)}
	if is.Err == nil {
		f.Partitions, f.Replicas = len(is.Partitions), is.Partitions.NumReplicas()
	}
	rests := want.Config()
	for _, s := range settings {
		if _, ok := rests[s.Key]; ok && s.Value != nil {
			f.Settings[s.Key] = *s.Value
		}
	}
	var few, headless []string
	f.InSync = f.Replicas
	for _, p := range is.Partitions.Sorted() {
		if p.Leader >= 0 && p.Err == nil {
			f.Leaders++
		} else {
			headless = append(headless, fmt.Sprint(p.Partition))
		}
		if f.InSync = min(f.InSync, len(p.ISR)); len(p.ISR) < len(p.Replicas) {
			few = append(few, fmt.Sprint(p.Partition))
		}
	}
	if len(headless) > 0 {
		i.problem("topics", want.Name, "partitions without a leader: "+strings.Join(headless, ", "),
			"start the brokers that have them")
	} else if len(few) > 0 {
		i.problem("topics", want.Name, "partitions with replicas that are behind: "+strings.Join(few, ", "),
			"start the brokers that are away and wait; "+i.cfg.Tool("kafka-topics")+
				" --describe --under-replicated-partitions")
	}
	i.Topics = append(i.Topics, f)
}

// groups says who processes, and how far behind.
func (i *inspection) groups(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, inspectIn)
	defer cancel()
	working := false
	for _, replica := range []string{topology.ReplicaA, topology.ReplicaB} {
		for _, group := range []string{topology.GroupSequencer, topology.GroupClosure, topology.GroupFrontier} {
			f, there := i.group(ctx, topology.GroupOf(group, replica))
			f.Replica = replica
			if !there && replica == topology.ReplicaB {
				continue // most installations have one
			}
			i.Groups = append(i.Groups, f)
			if f.Error != "" {
				i.problem("groups", "", f.Name+": "+f.Error, "give this user the right to describe groups: "+
					i.cfg.Tool("kafka-acls")+" --add --allow-principal User:"+cmp.Or(i.cfg.Kafka.User, "ANONYMOUS")+
					" --operation Describe --group "+f.Name)
			}
			working = working || group == topology.GroupSequencer && f.State == "Stable" && len(f.Members) > 0
		}
	}
	if !working {
		i.problem("groups", "", "no sequencer runs: nothing is decided",
			"hence streams --brokers "+strings.Join(i.cfg.Brokers, ","))
	}
}

func (i *inspection) group(ctx context.Context, name string) (f GroupFact, there bool) {
	f.Name = name
	lags, err := i.admin.Lag(ctx, name)
	l, ok := lags[name]
	if err == nil && ok {
		err = l.Error()
	}
	if errors.Is(err, kerr.GroupIDNotFound) {
		err, l.State = nil, "Dead"
	}
	if err != nil {
		f.Error = err.Error()
		return f, true
	}
	if f.State = l.State; f.State == "Dead" || f.State == "" {
		f.State = "Dead"
		return f, false
	}
	for _, m := range l.Members {
		f.Members = append(f.Members, memberFact(m))
	}
	for _, p := range l.Lag.Sorted() {
		f.Lags = append(f.Lags, PartitionLag{Topic: p.Topic, Partition: p.Partition, Committed: p.Commit.At,
			End: p.End.Offset, Lag: p.Lag})
	}
	return f, true
}

func memberFact(m kadm.DescribedGroupMember) MemberFact {
	f := MemberFact{Instance: m.ClientID, Host: m.ClientHost}
	if m.InstanceID != nil {
		f.Instance = *m.InstanceID
	}
	seen := make(map[int32]bool)
	if assigned, ok := m.Assigned.AsConsumer(); ok {
		for _, t := range assigned.Topics {
			for _, p := range t.Partitions {
				if !seen[p] {
					seen[p] = true
					f.Partitions = append(f.Partitions, p)
				}
			}
		}
	}
	slices.SortFunc(f.Partitions, cmp.Compare[int32])
	return f
}
