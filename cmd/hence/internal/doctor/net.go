package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/access"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/signature"
)

// Bounds of what doctor asks other processes.
const (
	askIn       = 3 * time.Second
	maxAnswer   = 64 << 10
	skewNoted   = 2 * time.Second // a Date header has whole seconds
	skewAllowed = 5 * time.Second // half a lease
)

// lookAtAddresses says whether addresses are free, or Hence's own.
func (p *Patient) lookAtAddresses(ctx context.Context, found *checkup) {
	for _, address := range p.Listen {
		listener, err := net.Listen("tcp", address)
		_, port, _ := net.SplitHostPort(address)
		switch {
		case err == nil:
			_ = listener.Close() // nothing was accepted
			found.ok("ports", "%s is free", address)
		case errors.Is(err, syscall.EADDRINUSE) && p.isHence(ctx, address):
			found.ok("ports", "%s is taken by a process of Hence", address)
		case errors.Is(err, syscall.EADDRINUSE):
			found.problem("ports", "ss -ltnp 'sport = :"+port+"'  # stop that program, or give another --listen",
				"%s is taken by another program", address)
		case errors.Is(err, syscall.EACCES):
			found.problem("ports", "give a port from 1024: --listen", "%s needs more rights: %v", address, err)
		default:
			found.problem("ports", "give an address of this machine: --listen 127.0.0.1:"+port, "%v", err)
		}
	}
}

// isHence asks whether a readiness check answers there. One that speaks TLS with a certificate for another name, or of
// an unknown authority, cannot be told.
func (p *Patient) isHence(ctx context.Context, address string) bool {
	for _, scheme := range []string{"http://", "https://"} {
		answer, err := p.ask(ctx, scheme+address+"/readyz", nil)
		var ready struct{ Parts map[string]json.RawMessage }
		if err == nil && json.Unmarshal(answer.body, &ready) == nil && len(ready.Parts) > 0 {
			return true
		}
	}
	return false
}

// answered is what a process answered.
type answered struct {
	status  int
	body    []byte
	theirs  time.Time // its clock; zero: it does not say
	between [2]time.Time
}

func (p *Patient) ask(ctx context.Context, address string, show func(*http.Request) error) (answered, error) {
	ctx, cancel := context.WithTimeout(ctx, askIn)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return answered{}, err
	}
	if show != nil {
		if err := show(req); err != nil {
			return answered{}, err
		}
	}
	var a answered
	a.between[0] = time.Now()
	resp, err := p.HTTP.Do(req)
	if err != nil {
		return answered{}, err
	}
	defer resp.Body.Close()
	a.status, a.between[1] = resp.StatusCode, time.Now()
	a.theirs, _ = http.ParseTime(resp.Header.Get("Date"))
	a.body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return a, err
}

// skew is by how much the other clock is ahead at least; negative: behind. A Date header is cut to whole seconds.
func (a answered) skew() time.Duration {
	switch {
	case a.theirs.IsZero():
		return 0
	case a.theirs.After(a.between[1]):
		return a.theirs.Sub(a.between[1])
	case a.theirs.Add(time.Second).Before(a.between[0]):
		return a.theirs.Add(time.Second).Sub(a.between[0])
	}
	return 0
}

// lookAtSidecar asks a sidecar how it is.
func (p *Patient) lookAtSidecar(ctx context.Context, found *checkup) {
	if p.Sidecar == "" {
		return
	}
	const part = "sidecar"
	base := strings.TrimRight(p.Sidecar, "/")
	answer, err := p.ask(ctx, base+"/readyz", nil)
	if access.IsUntrusted(err) {
		found.problem(part, "--ca FILE  # CA certificate file of the sidecar", "%s cannot be trusted: %v", base, err)
		return
	}
	if err != nil {
		found.problem(part, fmt.Sprintf("hence sidecar --agent %s --workspace %s --brokers %s --nats %s",
			p.Agent, p.Workspace, strings.Join(p.Cluster.Brokers, ","), p.Cluster.NATS), "%s does not answer: %v", base, err)
		return
	}
	clockOf(found, "the sidecar", answer.skew())
	var ready api.Ready
	if err := json.Unmarshal(answer.body, &ready); err != nil || len(ready.Parts) == 0 {
		found.problem(part, "name the sidecar's own address: --sidecar http://127.0.0.1:7420",
			"%s answers %d and is not a sidecar", base, answer.status)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(ready.Agents)) { // of one sidecar; each has its own session and journal
		for _, what := range slices.Sorted(maps.Keys(ready.Agents[name].Parts)) {
			if what == "session" && !ready.Agents[name].Parts["journal"].OK {
				continue // it waits for the journal, which is told
			}
			if p := ready.Agents[name].Parts[what]; !p.OK {
				found.problem(part, fixOfPart(what), "agent %s of %s is not ready: %s: %s", name, base, what, p.Problem)
				found.tell(about{needs: what, brief: "agent " + name + " of " + base + " is not ready: " + what})
			}
		}
	}
	switch {
	case ready.Ready && ready.Agent == "":
		found.ok(part, "%s is ready: %d agents, workspace %s, at seq %d", base, len(ready.Agents), ready.Workspace,
			ready.View)
	case ready.Ready:
		found.ok(part, "%s is ready: agent %s, workspace %s, at seq %d", base, ready.Agent, ready.Workspace, ready.View)
	}
	for _, name := range slices.Sorted(maps.Keys(ready.Parts)) {
		if p := ready.Parts[name]; !p.OK {
			found.problem(part, fixOfPart(name), "%s is not ready: %s: %s", base, name, p.Problem)
			found.tell(about{needs: name, brief: base + " is not ready: " + name})
		}
	}
	p.lookAtIdentity(ctx, found, base, ready)
}

// lookAtIdentity sees whether the sidecar takes the token, and the signature of the key.
func (p *Patient) lookAtIdentity(ctx context.Context, found *checkup, base string, ready api.Ready) {
	token := p.Token
	if p.TokenFile != "" {
		token, _ = access.ReadToken(p.TokenFile) // what is wrong with it was found before
	}
	address := base + "/v1/workspaces/" + ready.Workspace + "/rules"
	if token != "" {
		answer, err := p.ask(ctx, address, func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+token)
			return nil
		})
		identity(found, "token", base,
			"use the token of this sidecar: from its --token-file, or as it printed it at its start", answer, err)
	}
	if p.Key != nil {
		answer, err := p.ask(ctx, address, func(r *http.Request) error { return signature.NewSigner(p.Key).Sign(r, nil) })
		identity(found, "key", base,
			"hence keys show NAME --key-file FILE  # its line goes into the sidecar's file of --keys", answer, err)
	}
}

// identity says whether what was shown is taken.
func identity(found *checkup, part, base, fix string, answer answered, err error) {
	switch {
	case err != nil:
		found.problem(part, "run hence doctor again", "%s does not answer: %v", base, err)
	case answer.status == http.StatusUnauthorized:
		found.problem(part, fix, "%s rejects the %s", base, part)
	default:
		found.ok(part, "%s accepts the %s", base, part)
	}
}

// fixOfPart is what to do about a part of a sidecar that is not ready.
func fixOfPart(part string) string {
	switch part {
	case "kafka":
		return "start the brokers, or name others with --brokers; the sidecar goes on by itself"
	case "nats":
		return "start NATS, or name another with --nats; until then decisions come from Kafka"
	case "topics":
		return "hence topics verify  # and what it says"
	case "journal":
		return "make its folder in --data-dir writable for the sidecar's user, or free or replace that disk"
	}
	return "hence streams  # the processors; what they say of themselves is at their /readyz"
}

// clockOf judges by how much a clock differs from ours.
func clockOf(found *checkup, whose string, skew time.Duration) {
	const fix = "timedatectl set-ntp true  # on the machine that is wrong"
	switch size := skew.Abs().Round(100 * time.Millisecond); {
	case size > skewAllowed:
		found.problem("clock", fix, "the clock of %s is %s ours by %s", whose, direction(skew), size)
	case size > skewNoted:
		found.note("clock", "the clock of %s is %s ours by %s", whose, direction(skew), size)
	default:
		found.ok("clock", "the clock of %s agrees with ours", whose)
	}
}

func direction(skew time.Duration) string {
	if skew < 0 {
		return "behind"
	}
	return "ahead of"
}
