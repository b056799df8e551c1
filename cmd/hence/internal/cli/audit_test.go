package cli

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"context"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
	"github.com/hence-dev/hence/topology/audit"
)

// twoDecisions is a log of two decisions without their intents; one of them can be left out.
type twoDecisions struct {
	decisions, seals []audit.Record
}

func (d *twoDecisions) Head() (workspace, log string) { return "shop", "log" }

func (d *twoDecisions) Place(topic string) audit.Place {
	return audit.Place{Absent: topic == topology.TopicIntents, End: 2}
}

func (d *twoDecisions) Each(_ context.Context, topic string, f func(audit.Record) error) error {
	records := map[string][]audit.Record{topology.TopicDecisions: d.decisions, topology.TopicSeals: d.seals}
	for _, r := range records[topic] {
		if err := f(r); err != nil {
			return err
		}
	}
	return nil
}

// newTwoDecisions signs its seal with a key.
func newTwoDecisions(t *testing.T, key ed25519.PrivateKey) *twoDecisions {
	t.Helper()
	d := new(twoDecisions)
	public, _ := key.Public().(ed25519.PublicKey)
	s := topology.LogSeal{Workspace: "shop", Replica: "a", Log: "log", From: 1, To: 2, Key: topology.LogSealKey(public)}
	for seq := range sequencer.Seq(2) {
		o := &sequencer.Outcome{Workspace: "shop", Seq: seq + 1, Kind: sequencer.OutcomeJoined, Agent: "ann"}
		o.Chain = o.ChainAfter(s.Chain)
		value, err := topology.EncodeCloudEvent(o, time.Time{}, "")
		if err != nil {
			t.Fatal(err)
		}
		s.Chain, s.Digests = o.Chain, append(s.Digests, sha256.Sum256(value))
		d.decisions = append(d.decisions, audit.Record{Offset: int64(seq), Value: value})
	}
	value, err := topology.EncodeLogSeal(&s)
	if err != nil {
		t.Fatal(err)
	}
	d.seals = []audit.Record{{Value: value, Signature: topology.SignLogSeal(key, value)}}
	return d
}

// inFile writes a file of the test.
func inFile(t *testing.T, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func bundled(t *testing.T, src audit.Source) string {
	t.Helper()
	var b strings.Builder
	if err := audit.WriteBundle(t.Context(), &b, src, time.Now(), "v1"); err != nil {
		t.Fatal(err)
	}
	return inFile(t, "bundle.tar", []byte(b.String()))
}

// TestAudit holds the exit codes of "hence audit", and what it says of a bundle.
func TestAudit(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	trust := inFile(t, "trust.pem", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
	whole := bundled(t, newTwoDecisions(t, key))
	less := newTwoDecisions(t, key)
	less.decisions = less.decisions[1:]
	for _, c := range []struct {
		args []string
		code int
		out  string
		errs string
	}{
		{[]string{"--from", whole, "--trust", trust}, ExitOK, "vouched for up to 2, which is the last one", ""},
		{[]string{"--from", whole}, ExitOK, "nothing: no keys are trusted (--trust), 1 seal not verified", ""},
		{[]string{"--from", whole}, ExitOK, "not recomputed: the intents are not there", ""},
		{[]string{"--from", whole, "-o", "json"}, ExitOK, `"signatures_unchecked":true`, ""},
		{[]string{"--from", bundled(t, less), "--trust", trust}, ExitCheck,
			"FINDING     hence.decisions/0: missing: decisions 1 to 1 are not there", ""},
		{[]string{"--from", bundled(t, less), "--trust", trust, "--limit", "1"}, ExitCheck, "FINDING", ""},
		{[]string{"--from", bundled(t, newTwoDecisions(t, ed25519.NewKeyFromSeed([]byte(strings.Repeat("x", 32))))),
			"--trust", trust}, ExitCheck, "which is not trusted here", ""},
		{[]string{"--from", trust}, ExitFailed, "", "no bundle"},
		{[]string{"--from", "nowhere.tar"}, ExitFailed, "", "nowhere.tar"},
		{[]string{"--from", whole, "--trust", whole}, ExitUsage, "", "no PEM block PUBLIC KEY"},
		{[]string{"--from", whole, "--trust", "nowhere.pem"}, ExitUsage, "", "nowhere.pem"},
		{[]string{"--limit=-1"}, ExitUsage, "", "give 0 to"},
	} {
		code, out, errs := hence(t, append([]string{"audit"}, c.args...)...)
		if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.errs) {
			t.Errorf("hence audit %v: exit code %d, %q, %q; want %+v", c.args, code, out, errs, c)
		}
	}
	for _, args := range [][]string{
		{"streams", "--sign-key", trust}, {"dev", "--random-ports", "--sign-key", "nowhere"},
	} {
		if code, _, errs := hence(t, args...); code != ExitUsage || !strings.Contains(errs, "--sign-key") {
			t.Errorf("hence %v: exit code %d, %s", args, code, errs)
		}
	}
	if code, _, errs := hence(t, "export", "--bundle", whole, "--tx", "a"); code != ExitUsage ||
		!strings.Contains(errs, "of the whole workspace") {
		t.Errorf("exit code %d, %s", code, errs)
	}
}
