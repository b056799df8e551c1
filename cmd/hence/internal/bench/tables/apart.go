package tables

import (
	"context"
	"fmt"
	"time"

	"github.com/hence-dev/hence/sidecar/client"
)

// alike is what the work of several rows came to in one place.
type alike struct {
	orders sum
	mails  aftermath
}

// everyone runs an order that all agents act on, and branches, on agents wherever they are.
func (e *Env) everyone(ctx context.Context, s *services, agents []*client.Client, run string) (a alike, err error) {
	rounds, n := e.of(3, 100), e.of(2, 100)
	const width = 4
	a.orders, err = onOneOrder(ctx, run+"-orders", len(agents), rounds, e.thought(75*time.Millisecond),
		seat{agents: agents}.do)
	if err != nil {
		return a, err
	}
	groups := groupsOf(run, n, width)
	err = shared(len(agents), n, func(w, i int) error {
		return groups[i].speculate(ctx, agents[w], "mail.send", mailbox, table)
	})
	if err != nil {
		return a, err
	}
	won, lost := sides(groups)
	nothing := func(string) (bool, error) { return false, nil }
	a.mails = aftermath{name: run, wins: len(won), losings: len(lost)}
	if a.mails.won, err = s.left(won, nothing); err == nil {
		a.mails.lost, err = s.left(lost, nothing)
	}
	return a, err
}

// ok says whether nothing was done twice, and nothing of losers is left.
func (a alike) ok() bool {
	return a.orders.rounds > 0 && a.orders.extra == 0 && a.mails.clean(mailbox, table)
}

// String is what it came to.
func (a alike) String() string {
	return fmt.Sprintf("%d violations in %d rounds, %s losing branches have left a mail and %d a row", a.orders.extra,
		a.orders.rounds, of(a.mails.lost[mailbox], a.mails.losings), a.mails.lost[table])
}

func apartAlike(ctx context.Context, e *Env) (Result, error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	const agents = 4
	nodes := e.of(2, agents)
	s, place, processes, err := e.onProcesses(ctx, nodes, agents/nodes)
	if err != nil {
		return Result{}, err
	}
	defer s.close()
	apart, err := e.everyone(ctx, s, place.Agents, "apart")
	if err != nil {
		return Result{}, err
	}
	var killed fates
	k := &killing{s, processes[0], place.Agents[:1], []string{"row.pay"}}
	for i := range e.of(1, 20) {
		got, err := k.kill(ctx, fmt.Sprint("killed-", i), afterEffect)
		if err != nil {
			return Result{}, err
		}
		killed.add(got[0])
	}
	here, hereAt, err := e.onServices(ctx, agents)
	if err != nil {
		return Result{}, err
	}
	defer here.close()
	one, err := e.everyone(ctx, here, hereAt.Agents, "here")
	if err != nil {
		return Result{}, err
	}
	bare, err := onOneOrder(ctx, "bare", agents, apart.orders.rounds, e.thought(75*time.Millisecond), newMemory().none)
	if err != nil {
		return Result{}, err
	}
	return Result{
		Ours: fmt.Sprintf("%d processes: %v; of %d calls under a kill %d are lost and %d twice", nodes, apart, killed.n,
			killed.lost, killed.twice),
		Baseline: fmt.Sprintf("all in one process: %v; no control: %d violations", one, bare.extra),
		Verdict: holds(apart.ok() && one.ok() && killed.n > 0 && killed.lost+killed.twice+killed.listed == 0 &&
			bare.extra > 0),
		Note: "the work of A08, A16 and A34 in sidecar processes, over one broker and one group of processors in this " +
			"process, on one machine: neither several brokers nor machines were run"}, nil
}
