package doctor

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/inspect"
	"github.com/hence-dev/hence/topology"
)

// maxLag is how many records of a partition a group may not have committed before it is a problem. Some thousand are
// usual where all of them are read: up to 4,096 behind an idle workspace, whose state rests for up to 30 s, and as
// many as are read while a busy one's is not due yet. Kafka does not say how far a group has read.
const maxLag = 10_000

// lookAtCluster looks at Kafka, the topics, the processors and NATS. It returns the id of the log; empty: there is
// none.
func (p *Patient) lookAtCluster(ctx context.Context, found *checkup) (log string, err error) {
	report, err := inspect.Cluster(ctx, p.Cluster)
	if err != nil {
		return "", fmt.Errorf("look at the cluster: %w", err)
	}
	bad := map[string]bool{}
	missing, fix := missingTopics(report)
	if len(missing) > 0 {
		verb := "it does not exist"
		if len(missing) > 1 {
			verb = "they do not exist"
		}
		names := strings.Join(missing, ", ")
		found.problem("topics", fix, "%s: %s", names, verb)
		found.tell(about{topic: names, missing: true})
		bad["topics"] = true
	}
	for _, p := range report.Problems {
		if p.What == streams.TopicMissing {
			continue
		}
		says := p.What
		if p.Topic != "" {
			says = p.Topic + ": " + p.What
		}
		found.problem(partOf(p), p.Fix, "%s", says)
		found.tell(about{topic: p.Topic})
		bad[partOf(p)] = true
	}
	for _, say := range []func(*checkup, *inspect.Report, map[string]bool){
		sayBrokers, sayTopics, sayGroups, sayDecisions, sayReplicas, sayNATS, sayClocks, sayLogic, sayNames,
	} {
		say(found, report, bad)
	}
	return report.Log, nil
}

// missingTopics are those that are not there, and what makes them: one command for all.
func missingTopics(r *inspect.Report) (names []string, fix string) {
	for _, p := range r.Problems {
		if p.What == streams.TopicMissing {
			names, fix = append(names, p.Topic), p.Fix
		}
	}
	return names, fix
}

// partOf is what of the cluster a problem is about.
func partOf(p streams.Problem) string {
	switch {
	case p.Part != "":
		return p.Part
	case p.Topic != "":
		return "topics"
	}
	return "cluster"
}

func sayBrokers(found *checkup, r *inspect.Report, bad map[string]bool) {
	if len(r.Brokers) == 0 || bad["brokers"] {
		return
	}
	var versions []string
	for _, b := range r.Brokers {
		if b.Version != "" && !slices.Contains(versions, b.Version) {
			versions = append(versions, b.Version)
		}
	}
	found.ok("brokers", "%s of cluster %s: Kafka %s", show.Several(len(r.Brokers), "broker"), r.ClusterID,
		strings.Join(versions, ", "))
}

func sayTopics(found *checkup, r *inspect.Report, bad map[string]bool) {
	if len(r.Topics) == 0 || bad["topics"] {
		return
	}
	least := r.Topics[0].InSync
	for _, t := range r.Topics {
		least = min(least, t.InSync)
	}
	found.ok("topics", "%d topics with %s each and the settings that they must have; %d in sync at least",
		len(r.Topics), show.Several(r.Topics[0].Partitions, "partition"), least)
}

func sayGroups(found *checkup, r *inspect.Report, bad map[string]bool) {
	for _, g := range r.Groups {
		var lag, most int64
		for _, l := range g.Lags {
			lag, most = lag+max(l.Lag, 0), max(most, l.Lag)
		}
		switch {
		case g.Error != "": // said already
		case most > maxLag:
			found.problem("groups", "hence streams --instance ANOTHER  # add a member, or fix what is slow",
				"%s (%s) is %d records behind in a partition", g.Name, g.State, most)
		case len(g.Members) > 0 && !bad["groups"]:
			found.ok("groups", "%s is %s with %s, %s not committed yet", g.Name, g.State,
				show.Several(len(g.Members), "member"), show.Several(int(lag), "record"))
		default:
			found.note("groups", "%s is %s", g.Name, strings.ToLower(g.State))
		}
	}
}

func sayDecisions(found *checkup, r *inspect.Report, bad map[string]bool) {
	looked, copies, unread, why := 0, 0, 0, ""
	for _, d := range r.Decisions {
		looked, copies = looked+d.Looked, copies+d.Copies
		if d.Error != "" {
			unread, why = unread+1, cmp.Or(why, d.Error)
		}
	}
	if unread > 0 {
		found.problem("decisions", "give this user the right to read hence.decisions, or fix the brokers",
			"%s of hence.decisions cannot be read: %s", show.Several(unread, "partition"), why)
		found.tell(about{topic: topology.TopicDecisions,
			brief: show.Several(unread, "partition") + " of it cannot be read"})
		return
	}
	if len(r.Decisions) > 0 && !bad["decisions"] {
		found.ok("decisions", "no gap among the newest %s, %d of them second copies", show.Several(looked, "record"), copies)
	}
}

func sayReplicas(found *checkup, r *inspect.Report, _ map[string]bool) {
	if r.Replicas.Compared > 0 && r.Replicas.Difference == "" {
		found.ok("replicas", "%s of both groups are equal", show.Several(int(r.Replicas.Compared), "state"))
	}
}

func sayNATS(found *checkup, r *inspect.Report, bad map[string]bool) {
	n := r.NATS
	if !n.Stream || bad["nats"] {
		return
	}
	found.ok("nats", "version %s answers; the stream has %s, %d MiB of %d, for %s, %s, %s", n.Version,
		show.Several(int(n.Messages), "message"), n.Bytes>>20, n.MaxBytes>>20, n.MaxAge, show.Several(n.Replicas, "copy"),
		n.Storage)
}

func sayClocks(found *checkup, r *inspect.Report, bad map[string]bool) {
	for _, c := range r.Clocks {
		if !bad["clock"] {
			off := math.Ceil(math.Abs(c.AheadMs) + c.UncertainMs)
			found.ok("clock", "the clock of %s agrees with ours, within %.0f ms", c.Whose, off)
		}
	}
}
