package tables

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hence-dev/hence/gate/sinks"
)

func endToEnd(ctx context.Context, e *Env) (Result, error) {
	set, todo, err := e.errands(e.of(4, 30))
	if err != nil {
		return Result{}, err
	}
	const think, most = 700 * time.Millisecond, .01
	p := shopPace{tries: 1, most: answerTime, turns: true, think: e.thought(think)}
	ours, err := e.onHence(ctx, set, todo, sinks.Faults{}, p, lanes)
	if err != nil {
		return Result{}, err
	}
	theirs, err := e.done(ctx, set, todo, func(s *shop) (errands, error) { return noTxKind().open(s), nil },
		sinks.Faults{}, p, lanes)
	if err != nil {
		return Result{}, err
	}
	added := (ours.took - theirs.took) / time.Duration(ours.calls)
	share := added.Seconds() / think.Seconds()
	return Result{
		Ours: fmt.Sprintf("%s s, %s ms more for each call: %s %% of the thinking", digits(ours.took.Seconds()),
			digits(added.Seconds()*1000), digits(100*share)),
		Baseline: fmt.Sprintf("bare calls %s s", digits(theirs.took.Seconds())),
		Verdict:  holds(share <= most && ours.successes == ours.n && theirs.successes == theirs.n),
		Note: fmt.Sprintf("a model's turn before each call is %s ms of thinking, less at the small size, where the share "+
			"is still of these; begin, seal and settlement are in the time", digits(think.Seconds()*1000))}, nil
}

// meter is a ground that says how many bytes of its log some work takes, by topic.
type meter interface {
	Written(context.Context, func() error) (topics []string, records, bytes []int64, err error)
}

func logBytes(ctx context.Context, e *Env) (Result, error) {
	set, todo, err := e.errands(e.of(6, 30))
	if err != nil {
		return Result{}, err
	}
	ground, has := e.Ground.(meter)
	if !has {
		return Result{}, errors.New("the ground does not measure its log")
	}
	var ours tally
	topics, records, bytes, err := ground.Written(ctx, func() (err error) {
		ours, err = e.onHence(ctx, set, todo, sinks.Faults{}, paceOf(1), lanes)
		return err
	})
	if err != nil {
		return Result{}, err
	}
	var words []string
	all, sum := int64(0), int64(0)
	for i, topic := range topics {
		all, sum = all+records[i], sum+bytes[i]
		words = append(words, fmt.Sprintf("%s %s", topic, digits(float64(bytes[i])/float64(ours.n))))
	}
	if all == 0 {
		return Result{}, errors.New("nothing was written")
	}
	const theirs = 75
	entry := float64(sum) / float64(all)
	return Result{Ours: fmt.Sprintf("%s B for each record, %s for each transaction", digits(entry),
		digits(float64(sum)/float64(ours.n))),
		Baseline: fmt.Sprintf("answers and arguments alone, a call: %s B", digits(payload(todo))),
		Verdict:  holds(entry <= theirs),
		Note: fmt.Sprintf("bytes a transaction by topic: %s. A record of ours says what a transaction read and did, with "+
			"versions, keys, arguments and answers, and a decision also has its chain of hashes; the paper's entry is a line "+
			"of a library in one process", strings.Join(words, ", "))}, nil
}

// payload are the mean bytes of what calls say.
func payload(all []errand) float64 {
	bytes, calls := 0, 0
	for i := range all {
		for step, c := range all[i].calls {
			calls++
			bytes += len(fmt.Sprint(c.args))
			if step < len(all[i].want.Texts) {
				bytes += len(all[i].want.Texts[step])
			}
		}
	}
	return float64(bytes) / float64(calls)
}
