package streams

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/pause"
)

// Problem is one thing that is wrong with the topics of a cluster.
type Problem struct {
	Part  string // what inspect.Cluster looked at: brokers, topics, groups, decisions, parked, replicas, nats, clock
	Topic string // empty: the cluster as a whole
	What  string // what is wrong
	Fix   string // the command or the setting that fixes it
}

// TopicMissing is what is wrong with a topic that is not there.
const TopicMissing = "it does not exist"

// String is the problem in one line.
func (p Problem) String() string {
	if p.Topic == "" {
		return p.What + ": " + p.Fix
	}
	return p.Topic + ": " + p.What + ": " + p.Fix
}

// ErrTopics is returned by processor.Run and EnsureTopics when a topic is missing or not as it must be.
var ErrTopics = errors.New("topics")

// topicsAnswerIn bounds the wait for new topics: creation is asynchronous on real clusters.
const topicsAnswerIn = 30 * time.Second

// Topics are those that this configuration needs, with the settings that they must have.
func (c Config) Topics() []topology.Topic {
	return topology.Topics(topology.Options{
		Partitions: c.Partitions, Replication: int16(c.Replication), Replica: c.Replica,
		Anomalies: c.Anomalies > 0,
	})
}

// EnsureTopics creates the topics that are missing and waits until every partition answers. Topics that are there are
// left as they are: see VerifyTopics.
func EnsureTopics(ctx context.Context, cfg Config) error {
	cfg, err := cfg.Checked()
	if err != nil {
		return err
	}
	want := cfg.Topics()
	if err := topology.Validate(want); err != nil {
		return fmt.Errorf("%w: %w", ErrTopics, err)
	}
	cl, err := kgo.NewClient(cfg.BaseOptions()...)
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	for _, t := range want {
		settings := make(map[string]*string)
		for k, v := range t.Config() {
			settings[k] = kadm.StringPtr(v)
		}
		created, err := admin.CreateTopics(ctx, t.Partitions, t.Replication, settings, t.Name)
		if err == nil {
			err = created[t.Name].Err
		}
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("%w: create %s: %w", ErrTopics, t.Name, err)
		}
	}
	return waitForTopics(ctx, cl, want)
}

// waitForTopics returns when each partition of each topic can be asked for its end.
func waitForTopics(ctx context.Context, cl *kgo.Client, want []topology.Topic) error {
	ctx, cancel := context.WithTimeout(ctx, topicsAnswerIn)
	defer cancel()
	names := make([]string, 0, len(want))
	for _, t := range want {
		names = append(names, t.Name)
	}
	for {
		listed, err := kadm.NewClient(cl).ListEndOffsets(ctx, names...)
		if err == nil {
			if err = listed.Error(); err == nil && len(listed) == len(names) {
				return nil
			}
		}
		if pause.Sleep(ctx, retryBackoff) != nil {
			return fmt.Errorf("%w: not every partition answers within %v: %w", ErrTopics, topicsAnswerIn,
				errors.Join(err, ctx.Err()))
		}
	}
}

// VerifyTopics compares the topics of the cluster with what they must be.
func VerifyTopics(ctx context.Context, cfg Config) ([]Problem, error) {
	cfg, err := cfg.Checked()
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(cfg.BaseOptions()...)
	if err != nil {
		return nil, fmt.Errorf("verify topics: %w", err)
	}
	defer cl.Close()
	return verifyTopics(ctx, cl, cfg)
}

func verifyTopics(ctx context.Context, cl *kgo.Client, cfg Config) ([]Problem, error) {
	want := cfg.Topics()
	names := make([]string, 0, len(want))
	for _, t := range want {
		names = append(names, t.Name)
	}
	admin := kadm.NewClient(cl)
	there, err := admin.ListTopics(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("verify topics: %w", err)
	}
	settings, err := admin.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("verify topics: %w", err)
	}
	var problems []Problem
	real := slices.Clone(want)
	for i, t := range want {
		detail := there[t.Name]
		if detail.Err != nil || len(detail.Partitions) == 0 {
			problems = append(problems, Problem{"topics", t.Name, TopicMissing, cfg.createCommand()})
			continue
		}
		problems = append(problems, cfg.shape(t, detail)...)
		found, err := settings.On(t.Name, nil)
		if err == nil {
			err = found.Err
		}
		if err != nil {
			return problems, fmt.Errorf("verify topics: settings of %s: %w", t.Name, err)
		}
		problems = append(problems, cfg.differing(t, found.Configs)...)
		for _, s := range found.Configs {
			if ms, err := strconv.ParseInt(s.MaybeValue(), 10, 64); s.Key == "retention.ms" && err == nil {
				real[i].RetentionMs = ms
			}
		}
	}
	return append(problems, cfg.cones(real)...), nil
}

// cones are what the real retentions break: what a decision still needs is dropped. That a setting differs is said
// elsewhere; this says what it costs.
func (c Config) cones(real []topology.Topic) (problems []Problem) {
	for _, f := range topology.Cones(real).Check().Findings {
		fix := f.Cure
		if f.From == "" {
			fix = fmt.Sprintf("%s; run: %s --alter --topic %s --add-config retention.ms=MILLISECONDS", f.Cure,
				c.Tool("kafka-configs"), f.Place)
		}
		problems = append(problems, Problem{"topics", f.Place, f.What, fix})
	}
	return problems
}

// createCommand is the command that creates what is missing.
func (c Config) createCommand() string {
	cmd := fmt.Sprintf("hence topics create --brokers %s --partitions %d --replication %d",
		strings.Join(c.Brokers, ","), c.Partitions, c.Replication)
	if c.Replica != "" {
		cmd += " --replica " + c.Replica
	}
	if c.Anomalies > 0 {
		cmd += " --anomalies"
	}
	return cmd
}

// Tool is the beginning of a command of Kafka's own, which reads a login or TLS from a file of its own.
func (c Config) Tool(name string) string {
	command := name + ".sh --bootstrap-server " + strings.Join(c.Brokers, ",")
	if c.Kafka != (Security{}) {
		command += " --command-config FILE"
	}
	return command
}

// shape compares partition and replica counts. A partition count cannot be fixed in place: keys would move.
func (c Config) shape(want topology.Topic, is kadm.TopicDetail) (problems []Problem) {
	if n := len(is.Partitions); n != int(want.Partitions) {
		problems = append(problems, Problem{"topics", want.Name,
			fmt.Sprintf("%d partitions where all topics must have %d", n, want.Partitions),
			fmt.Sprintf("run with --partitions %d if all topics have as many, else delete the topic and run: %s",
				n, c.createCommand())})
	}
	if n := is.Partitions.NumReplicas(); n < int(want.Replication) {
		problems = append(problems, Problem{"topics", want.Name,
			fmt.Sprintf("%d replicas, fewer than the %d asked for", n, want.Replication),
			fmt.Sprintf("run with --replication %d, or write a JSON file that names %d brokers for each partition, and: "+
				"%s --reassignment-json-file THAT.json --execute", n, want.Replication, c.Tool("kafka-reassign-partitions"))})
	}
	return problems
}

// differing compares the settings that our guarantees rest on; a broker that does not know one says nothing of it.
func (c Config) differing(want topology.Topic, is []kadm.Config) (problems []Problem) {
	found := make(map[string]string, len(is))
	for _, s := range is {
		if s.Value != nil {
			found[s.Key] = *s.Value
		}
	}
	settings := want.Config()
	for _, k := range slices.Sorted(maps.Keys(settings)) {
		v := settings[k]
		if have, ok := found[k]; ok && have != v && !stricter(k, have, v) &&
			!compactedOnly(k, found["cleanup.policy"], want) {
			problems = append(problems, Problem{"topics", want.Name, fmt.Sprintf("%s is %s where it must be %s", k, have, v),
				fmt.Sprintf("%s --alter --topic %s --add-config %s=%s", c.Tool("kafka-configs"), want.Name, k, listed(v))})
		}
	}
	return problems
}

// stricter: who does not know how many replicas a cluster keeps must not call it wrong that it waits for more of them.
func stricter(setting, have, want string) bool {
	if setting != "min.insync.replicas" {
		return false
	}
	h, err := strconv.Atoi(have)
	w, wantErr := strconv.Atoi(want)
	return err == nil && wantErr == nil && h > w
}

// listed is a value as Kafka's tools take it: one with commas in brackets.
func listed(value string) string {
	if strings.Contains(value, ",") {
		return "[" + value + "]"
	}
	return value
}

// compactedOnly: a table that an older release created is only compacted. It loses nothing so; its brokers keep what
// is not read any more until compaction takes it, a day later.
func compactedOnly(setting, policy string, of topology.Topic) bool {
	return of.IsTable() && policy == string(topology.CleanupCompact) &&
		(setting == "cleanup.policy" || setting == "retention.bytes")
}

// ForgetCommand deletes what the sequencers of a replica have computed. None of them may run.
func (c Config) ForgetCommand(replica string) string {
	c.Replica = replica
	group := topology.GroupOf(topology.GroupSequencer, replica)
	return fmt.Sprintf("%s --delete --topic %s && %s --delete --group %s && %s", c.Tool("kafka-topics"),
		topology.TableOf(group), c.Tool("kafka-consumer-groups"), group, c.createCommand())
}
