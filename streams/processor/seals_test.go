package processor_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/internal/teststreams"
	"github.com/hence-dev/hence/streams/processor"
	"github.com/hence-dev/hence/streams/recorded"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/audit"
)

// envSealing makes this test binary run processors that seal until it is killed, with a sealing in JSON.
const envSealing = "HENCE_TEST_SEALING"

// sealing is a process of processors that seals every four decisions and never by time.
type sealing struct {
	Brokers   []string
	NATS      string
	EachState bool // the state is written after each step; else never
}

// sealingChild runs the processors, if this process was started for that.
func sealingChild() bool {
	text := os.Getenv(envSealing)
	if text == "" {
		return false
	}
	var s sealing
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		panic(err)
	}
	cfg := streams.Config{Brokers: s.Brokers, NATS: s.NATS, Partitions: 2, Instance: "one", MemoryStream: true}
	sealed(&cfg)
	if cfg.SealAfter, cfg.StateAfter, cfg.StateEvery = time.Hour, time.Hour, 1<<20; s.EachState {
		cfg.StateEvery = 1
	}
	if err := processor.Run(context.Background(), cfg); err != nil {
		panic(err)
	}
	return true
}

func sealKey(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32))
}

// sealed lets processors seal every four decisions, or soon.
func sealed(c *streams.Config) {
	c.SealKey, c.SealEvery, c.SealAfter = sealKey(1), 4, 300*time.Millisecond
}

// auditOf audits a workspace with the keys 1 and 2 trusted.
func auditOf(w *teststreams.World, workspace string) *audit.Report {
	w.T.Helper()
	log, err := recorded.OpenSealed(w.Context(), w.Cfg, workspace)
	if err != nil {
		w.T.Fatal(err)
	}
	trust := audit.Keys{}
	for seed := range byte(2) {
		public, _ := sealKey(seed + 1).Public().(ed25519.PublicKey)
		trust[topology.LogSealKey(public)] = public
	}
	r, err := audit.Run(w.Context(), log, trust, 0)
	if err != nil {
		w.T.Fatal(err)
	}
	return r
}

// vouched waits until all decisions that a view has are vouched for.
func vouched(w *teststreams.World, v *teststreams.View, workspace string) (r *audit.Report) {
	w.T.Helper()
	w.Until("seals of all decisions", func() bool {
		r = auditOf(w, workspace)
		// Until the first seal that nothing is sealed is what there is to find.
		return len(r.Findings) > 0 && r.Findings[0].Kind != audit.KindUnsealed || int(r.Vouched) >= v.Len()
	})
	for _, f := range r.Findings {
		w.T.Errorf("a finding: %+v", f)
	}
	return r
}

// sealsOf are the seals that a group has written of a workspace.
func sealsOf(w *teststreams.World, workspace, replica string) (seals []*topology.LogSeal) {
	w.T.Helper()
	for _, r := range w.Records(topology.TopicSeals) {
		s, err := topology.DecodeLogSeal(r.Value)
		if err != nil {
			w.T.Fatal(err)
		}
		if s.Workspace == workspace && s.Replica == replica {
			seals = append(seals, s)
		}
	}
	return seals
}

// An owner that ends in good order seals what it has published, and the next one continues its chain.
func TestNextOwnerContinuesTheSeals(t *testing.T) {
	w := teststreams.New(t, sealed)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	var ann *teststreams.Agent
	for range 3 {
		stop := w.Run(w.Cfg)
		if ann == nil {
			ann = w.Join(c, v, "shop", "ann")
		}
		for range 5 {
			renew(ann)
			w.Decided(v, ann.Write("x", "y"))
		}
		vouched(w, v, "shop")
		w.Decided(v, ann.Write("x", "the last"))
		stop()
		if r := auditOf(w, "shop"); r.Vouched != r.Decisions.To {
			t.Errorf("decisions up to %d are there when the owner has ended, sealed up to %d", r.Decisions.To, r.Vouched)
		}
	}
	r := vouched(w, v, "shop")
	if len(r.Notes) > 0 || len(r.Unsealed) > 0 || r.Recomputed != r.Decisions {
		t.Errorf("%+v", r)
	}
	for i, s := range sealsOf(w, "shop", "a") {
		if (s.Former == sequencer.Hash{}) != (i == 0) || len(s.Digests) > 4 {
			t.Errorf("seal %d: %d to %d behind %x", i, s.From, s.To, s.Former)
		}
	}
}

// A group without a key writes no seals; what it has published then stays unsealed, and is said.
func TestNothingIsSealedWithoutAKey(t *testing.T) {
	w := teststreams.New(t, sealed)
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	bare := w.Cfg
	bare.SealKey = nil
	var ann *teststreams.Agent
	var from, to int
	for _, cfg := range []streams.Config{w.Cfg, bare, w.Cfg} {
		stop := w.Run(cfg)
		if ann == nil {
			ann = w.Join(c, v, "shop", "ann")
		}
		if cfg.SealKey == nil {
			from = v.Len() + 1
		}
		for range 5 {
			w.Decided(v, ann.Write("x", "y"))
		}
		if cfg.SealKey == nil {
			to = v.Len()
		} else {
			vouched(w, v, "shop")
		}
		stop()
	}
	r := vouched(w, v, "shop")
	if len(r.Unsealed) != 1 || int(r.Unsealed[0].From) > from || int(r.Unsealed[0].To) < to ||
		len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "has not sealed the bytes of decisions") {
		t.Errorf("sealed again behind %d to %d: %+v", from, to, r)
	}
}

// A process that is killed leaves decisions without a seal. The next owner publishes them again or not, continues the
// chain, and nothing of that is a finding.
func TestSealsAfterAKill(t *testing.T) {
	for name, each := range map[string]bool{"decisions are published again": false, "no decision is again": true} {
		t.Run(name, func(t *testing.T) {
			w := teststreams.New(t, sealed)
			c := w.Dial(w.Cfg)
			v := w.Follow(c, "shop")
			text, err := json.Marshal(sealing{w.Servers.Brokers, w.Servers.NATS, each})
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(w.Context(), os.Args[0], "-test.run=^$")
			cmd.Env, cmd.Stderr = append(os.Environ(), envSealing+"="+string(text)), os.Stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ann := w.Join(c, v, "shop", "ann")
			for range 9 {
				w.Decided(v, ann.Write("x", "y"))
			}
			w.Until("two seals", func() bool { return len(sealsOf(w, "shop", "a")) >= 2 })
			if each { // the last row has no outbox that could be published again
				w.Until("a state of all decisions", func() bool {
					row := table(w, topology.TableOf(topology.GroupSequencer), "shop", topology.DecodeReplica)[""]
					if int(row.State.Seq) < v.Len() || len(row.Outbox) > 0 {
						renew(ann)
						return false
					}
					return true
				})
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			former := sealsOf(w, "shop", "a")
			last := former[len(former)-1].To
			w.Run(w.Cfg)
			for range 5 {
				renew(ann)
				w.Decided(v, ann.Write("x", "z"))
			}
			r := vouched(w, v, "shop")
			seals := sealsOf(w, "shop", "a")
			next := seals[len(former)]
			if (next.Former == sequencer.Hash{}) || each != (next.From > last+1) || each != (r.Copies == 0) {
				t.Errorf("sealed up to %d, then %d to %d behind %x, %d copies", last, next.From, next.To, next.Former, r.Copies)
			}
			if i := slices.IndexFunc(r.Notes, func(n string) bool { return strings.Contains(n, "start over") }); i >= 0 {
				t.Errorf("the chain is not continued: %s", r.Notes[i])
			}
		})
	}
}

// Two groups seal each what they have published; equal copies are no finding, and each has a chain of its own.
func TestTwoGroupsSeal(t *testing.T) {
	w, a, b := teststreams.Replicas(t, sealed)
	b.SealKey = sealKey(2)
	w.Run(a)
	w.Run(b)
	w.Well(a.Health)
	w.Well(b.Health)
	a.Health.Note("seals", "a seal was refused")
	c := w.Dial(w.Cfg)
	v := w.Follow(c, "shop")
	ann := w.Join(c, v, "shop", "ann")
	for range 9 {
		renew(ann)
		w.Decided(v, ann.Write("x", "y"))
	}
	all := func(replica string) bool {
		seals := sealsOf(w, "shop", replica)
		return len(seals) > 0 && int(seals[len(seals)-1].To) >= v.Len()
	}
	w.Until("seals of both", func() bool { return all("a") && all("b") })
	r := vouched(w, v, "shop")
	if notes := a.Health.Notes(); notes["seals"] != "" {
		t.Errorf("seals are written, and the health says %v", notes)
	}
	if len(r.Notes) > 0 || r.Copies < 10 || r.Unvouched > 0 || len(r.Keys) != 2 || len(r.Unsealed) > 0 {
		t.Errorf("%+v", r)
	}
}
