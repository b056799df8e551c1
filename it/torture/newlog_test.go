package torture

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/hence-dev/hence/it/harness"
)

// newLog takes the log away in the middle of the work, with all that the processors had made of it: topics are
// deleted, everything dies, and what is started again finds a new log beside journals of the former one. Nothing
// of that one is judged, it is gone; the agents' new work has to be right, and what sinks had must not come a second
// time.
func (l *lab) newLog() error {
	ctx, cancel := context.WithTimeout(l.Context(), 2*time.Minute)
	defer cancel()
	l.load = newLoad(l.cars, l.workspace, "former")
	end := l.run(l.Context())
	err := l.reach(200, recoverBound)
	for _, p := range append(l.cars, l.procs...) {
		if _, failed := p.kill(); err == nil {
			err = failed
		}
	}
	end()
	if err == nil {
		err = l.dropTopics(ctx)
	}
	if err != nil {
		return err
	}
	for _, p := range append(l.procs, l.cars...) { // the processors make the topics
		if err := p.start(); err != nil {
			return err
		}
	}
	l.load = newLoad(l.cars, l.workspace, "new")
	end = l.run(l.Context())
	err = l.since(0, recoverBound)
	if err == nil {
		err = l.reach(300, recoverBound)
	}
	end()
	if err == nil {
		err = l.lastOnes(l.Context())
	}
	return err
}

// dropTopics deletes every topic of ours and waits until none is listed.
func (l *lab) dropTopics(ctx context.Context) error {
	admin := kadm.NewClient(harness.RawClient(l, l.servers.Brokers))
	listed, err := admin.ListTopics(ctx)
	if err != nil {
		return err
	}
	if _, err := admin.DeleteTopics(ctx, listed.Names()...); err != nil {
		return err
	}
	harness.Eventually(l, recoverBound, func() error {
		left, err := admin.ListTopics(ctx)
		if err == nil && len(left.Names()) > 0 {
			err = fmt.Errorf("there still are %v", left.Names())
		}
		return err
	})
	return nil
}
