package crash

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/hence-dev/hence/sidecar/client"
)

// The environment of the test binary as the program of "hence run".
const (
	envDevAgent  = "IT_DEV_AGENT"  // how many commits; 0: until it is told to end
	envDevReport = "IT_DEV_REPORT" // where it says what came of each round
)

// devRound is what came of one round of an agent.
type devRound struct {
	Agent string `json:"agent"`
	ID    string `json:"id"`   // of the round's calls
	Life  string `json:"life"` // of the log, as the round has read it
	N     int    `json:"n"`    // what it wrote
	State string `json:"state"`
	Cause string `json:"cause"`
	Loose bool   `json:"loose"`
}

// The states of a round. After one that is not known the agent reads again, as after the others.
const (
	devCommitted = "committed"
	devAborted   = "aborted"
	devUnknown   = "unknown"
	devLasting   = "lasting" // a 410 after reading again
	devBusy      = "busy"    // no sidecar, no log, or another agent was faster: nothing is said of the round
)

// devAgent adds one to a counter again and again, in transactions with calls and with loose reads.
type devAgent struct {
	name   string
	report string
	cl     *client.Client
	told   int // 410s since the last commit
}

// playDevAgent is the program of an agent beside "hence dev".
func playDevAgent(rounds string) int {
	want, err := strconv.Atoi(rounds)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	a := &devAgent{name: os.Getenv("HENCE_AGENT"), report: os.Getenv(envDevReport), cl: client.New(os.Getenv("HENCE_URL"),
		os.Getenv("HENCE_TOKEN"), client.WithWorkspace(os.Getenv("HENCE_WORKSPACE")), client.WithTries(1))}
	defer a.cl.Close()
	for done := 0; ctx.Err() == nil && (want == 0 || done < want); {
		r := a.round(ctx, done%2 == 0)
		if r.State == devCommitted {
			done++
		}
		if r.State != devBusy {
			err = a.say(r)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		select {
		case <-ctx.Done():
		case <-time.After(30 * time.Millisecond):
		}
	}
	a.leave(ctx)
	return 0
}

// readIn is the beginning of a shard that only reads name.
const readIn = "shard:/read-in/"

// leave ends as agents do that are killed: what it has read is in the journal, and a transaction is open.
func (a *devAgent) leave(ctx context.Context) {
	life, err := a.cl.Get(ctx, "shard:/life")
	if err == nil {
		_, err = a.cl.Get(ctx, readIn+string(life.Content))
	}
	if err == nil {
		var tx *client.Tx
		if tx, err = a.cl.Begin(ctx, client.BeginOptions{}); err == nil {
			_, err = tx.Effect(ctx, "note", map[string]any{"agent": a.name, "id": "never", "life": ""}, client.EffectOptions{})
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "left nothing open:", err)
	}
}

func (a *devAgent) say(r devRound) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	got, err := http.Post(a.report, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	return got.Body.Close()
}

// round adds one to one of the two counters.
func (a *devAgent) round(ctx context.Context, loose bool) devRound {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r := devRound{Agent: a.name, ID: rand.Text(), Loose: loose}
	var d client.Decision
	var err error
	sealed := false
	if loose {
		d, sealed, err = a.loosely(ctx, &r)
	} else {
		d, sealed, err = a.transact(ctx, &r)
	}
	var p *client.Problem
	switch {
	case err == nil:
		r.State, r.Cause = d.State, d.Code
	case errors.As(err, &p) && p.Code == "session_lost":
		r.State, r.Cause = devBusy, err.Error()
		if a.told++; a.told > 3 { // each kind of round may be told once, and the session may be lost meanwhile
			r.State = devLasting
		}
	case sealed && (p == nil || p.Status >= http.StatusInternalServerError):
		r.State, r.Cause = devUnknown, err.Error()
	default:
		r.State, r.Cause = devBusy, err.Error()
	}
	if r.State != devCommitted && r.State != devAborted && r.State != devUnknown && r.State != devLasting {
		r.State = devBusy
	}
	if r.State == devCommitted {
		a.told = 0
	}
	if r.State == devUnknown && d.State != "" {
		r.Cause += " " + d.State
	}
	return r
}

// devValue is the content of a counter.
type devValue struct {
	N    int    `json:"n"`
	Life string `json:"life"`
}

func valueOf(s client.Shard) (v devValue, err error) {
	if s.Exists {
		err = json.Unmarshal(s.Content, &v)
	}
	return v, err
}

var errNoLife = errors.New("this log has not been named yet")

// loosely reads outside a transaction, and writes what follows from it.
func (a *devAgent) loosely(ctx context.Context, r *devRound) (d client.Decision, sealed bool, err error) {
	life, err := a.cl.Get(ctx, "shard:/life")
	if err != nil || !life.Exists {
		return d, false, errors.Join(errNoLife, err)
	}
	count, err := a.cl.Get(ctx, "shard:/loose")
	if err == nil {
		_, err = a.cl.Get(ctx, readIn+string(life.Content)) // it tells of each seal in whose life its reads were made
	}
	if err != nil {
		return d, false, err
	}
	body, err := r.next(life, count)
	if err == nil {
		d, err = a.cl.Put(ctx, "shard:/loose", body, client.WriteOptions{})
	}
	return d, true, err
}

func (a *devAgent) transact(ctx context.Context, r *devRound) (d client.Decision, sealed bool, err error) {
	tx, err := a.cl.Begin(ctx, client.BeginOptions{})
	if err != nil {
		return d, false, err
	}
	defer func() {
		if !sealed {
			err = errors.Join(err, tx.Abort(ctx, "it is begun again"))
		}
	}()
	life, err := tx.Read(ctx, "shard:/life")
	if err != nil || !life.Exists {
		return d, false, errors.Join(errNoLife, err)
	}
	count, err := tx.Read(ctx, "shard:/count")
	if err != nil {
		return d, false, err
	}
	body, err := r.next(life, count)
	if err != nil {
		return d, false, err
	}
	if err := tx.Write(ctx, "shard:/count", body, client.WriteOptions{}); err != nil {
		return d, false, err
	}
	for _, tool := range []string{"note", "charge"} {
		_, err := tx.Effect(ctx, tool, map[string]any{"agent": a.name, "id": r.ID, "life": r.Life}, client.EffectOptions{})
		if err != nil {
			return d, false, err
		}
	}
	d, err = tx.Seal(ctx)
	return d, true, err
}

// next is what follows from a counter.
func (r *devRound) next(life, count client.Shard) ([]byte, error) {
	v, err := valueOf(count)
	if err != nil {
		return nil, err
	}
	r.Life, r.N = string(life.Content), v.N+1
	return json.Marshal(devValue{N: r.N, Life: r.Life})
}
