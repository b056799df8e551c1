package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hence-dev/hence/gate/child"
	"github.com/hence-dev/hence/topology/pause"
)

// Bounds of the supervision of children.
const (
	readyBound   = 60 * time.Second // from the start of a child to its ready line
	graceBound   = 5 * time.Second  // from the end of a child's input to its kill
	minBackoff   = 50 * time.Millisecond
	maxBackoff   = 2 * time.Second
	maxFailures  = 20               // starts in a row that never became ready, or that soon ended by themselves
	calm         = 10 * time.Second // a child that served so long has not failed
	maxReadyLine = 16 << 10
)

// Ready is the line of JSON that a child prints on its standard output once it serves.
type Ready struct {
	Role    string `json:"role"`
	Agent   string `json:"agent,omitempty"`
	PID     int    `json:"pid"`
	Address string `json:"address"`
}

// Announcement is the line of JSON that a supervisor prints for each child that serves.
type Announcement struct {
	Ready
	Starts int `json:"starts"` // 1 at first, then counted up each time that it was started again
}

// Spec says how a child is started. Args gives its arguments for an address; it is "" at the first start, when the
// child may choose, and afterwards the address that it chose then.
type Spec struct {
	Role, Name string
	Args       func(address string) []string
	Env        []string // the child's whole environment
}

// Supervisor keeps child processes of one program running. A child is told to end by the end of its standard input,
// so it also ends when the supervisor is killed.
type Supervisor struct {
	program  string
	logDir   string        // each child's standard error goes to a file in it
	announce io.Writer     // one line of JSON for each child that serves
	grace    time.Duration // from the end of a child's input to its kill
	slowest  time.Duration // pause before a further start
	printing sync.Mutex

	ctx    context.Context
	cancel context.CancelFunc
	keep   sync.WaitGroup
	failed chan error

	mu      sync.Mutex
	running map[string]Ready // by the child's name
}

// NewSupervisor returns a supervisor of children that run program. The caller must Close it.
func NewSupervisor(program, logDir string, announce io.Writer) *Supervisor {
	ctx, cancel := context.WithCancel(context.Background())
	return &Supervisor{program: program, logDir: logDir, announce: announce, grace: graceBound, slowest: maxBackoff,
		ctx: ctx, cancel: cancel, failed: make(chan error, 1), running: map[string]Ready{}}
}

// Failed receives an error when a child could not be started again; the others go on.
func (s *Supervisor) Failed() <-chan error { return s.failed }

// Running lists the children that serve, in no order.
func (s *Supervisor) Running() []Ready {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.running))
}

// Start starts a child, waits until it serves and returns its address. From then on the child is started again
// whenever it ends.
func (s *Supervisor) Start(ctx context.Context, spec Spec) (address string, err error) {
	first := make(chan result, 1)
	s.keep.Go(func() { s.supervise(spec, first) })
	select {
	case r := <-first:
		return r.address, r.err
	case <-ctx.Done():
		return "", fmt.Errorf("start %s: %w", spec.Name, context.Cause(ctx))
	}
}

// Close ends all children and waits for them.
func (s *Supervisor) Close() {
	s.cancel()
	s.keep.Wait()
}

type result struct {
	address string
	err     error
}

// supervise starts a child again and again until the supervisor is closed. A first start that fails is not
// repeated.
func (s *Supervisor) supervise(spec Spec, first chan<- result) {
	address, failures, backoff := "", 0, pause.Doubling{Least: minBackoff, Most: s.slowest}
	for starts := 1; s.ctx.Err() == nil; starts++ {
		c, ready, err := s.startOnce(spec, address)
		if err != nil && address == "" {
			first <- result{err: err}
			return
		}
		if err == nil {
			s.serves(spec.Name, &ready)
			if address == "" {
				address = ready.Address
				first <- result{address: address}
			}
			s.print(Announcement{Ready: ready, Starts: starts})
			err = c.served()
			s.serves(spec.Name, nil)
		}
		if failures++; err == nil {
			failures = 0
			backoff.Reset()
		}
		if failures == maxFailures {
			s.fail(fmt.Errorf("%s failed to start %d times: %w", spec.Name, failures, err))
			return
		}
		if pause.Sleep(s.ctx, backoff.Next()) != nil {
			return
		}
	}
}

// serves notes that a child serves, or that it does not any more.
func (s *Supervisor) serves(name string, ready *Ready) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.running, name); ready != nil {
		s.running[name] = *ready
	}
}

func (s *Supervisor) fail(err error) {
	select {
	case s.failed <- err:
	default: // one is enough to end the run
	}
}

func (s *Supervisor) print(a Announcement) {
	line, err := json.Marshal(a)
	if err != nil {
		panic("cluster: an announcement has no JSON form: " + err.Error())
	}
	s.printing.Lock()
	defer s.printing.Unlock()
	fmt.Fprintf(s.announce, "%s\n", line)
}

// startOnce starts the child once and waits for its ready line.
func (s *Supervisor) startOnce(spec Spec, address string) (*started, Ready, error) {
	c, err := s.spawn(spec, address)
	if err != nil {
		return nil, Ready{}, err
	}
	timer := time.NewTimer(readyBound)
	defer timer.Stop()
	select {
	case ready, ok := <-c.ready:
		if ok {
			return c, ready, nil
		}
		<-c.ended
		return nil, Ready{}, fmt.Errorf("%s ended before it was ready: %s", spec.Name, c.lastWords())
	case <-timer.C:
		c.stop()
		<-c.ended
		return nil, Ready{}, fmt.Errorf("%s was not ready within %s: %s", spec.Name, readyBound, c.lastWords())
	case <-s.ctx.Done():
		<-c.ended
		return nil, Ready{}, s.ctx.Err()
	}
}

// started is one started process.
type started struct {
	ready   chan Ready // one value, or closed without one
	ended   chan struct{}
	process *child.Process
	stop    context.CancelFunc
	logPath string
}

// served waits until a child that became ready has ended. An error says that it soon gave up by itself: nothing
// killed it, so another start is likely to end alike.
func (c *started) served() error {
	since := time.Now()
	<-c.ended
	state, _ := c.process.Result()
	if state == nil || !state.Exited() || time.Since(since) > calm {
		return nil
	}
	return fmt.Errorf("it ended by itself (%s): %s", state, c.lastWords())
}

// spawn starts the process; when the supervisor closes, its input ends, and a grace later it is killed.
func (s *Supervisor) spawn(spec Spec, address string) (*started, error) {
	ctx, stop := context.WithCancel(s.ctx)
	c := &started{ready: make(chan Ready, 1), ended: make(chan struct{}), stop: stop,
		logPath: filepath.Join(s.logDir, spec.Name+".log")}
	cmd := exec.CommandContext(ctx, s.program, spec.Args(address)...)
	cmd.Env, cmd.WaitDelay = spec.Env, s.grace
	stdin, err := cmd.StdinPipe()
	if err != nil {
		stop()
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	cmd.Cancel = stdin.Close
	log, err := os.OpenFile(c.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		stop()
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	cmd.Stderr = log
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		c.process, err = child.Start(cmd, func() { readReady(stdout, c.ready) })
	}
	if err != nil {
		stop()
		return nil, errors.Join(fmt.Errorf("start %s: %w", spec.Name, err), log.Close())
	}
	s.keep.Go(func() {
		defer stop()
		defer close(c.ended)
		_, err := c.process.Result()
		fmt.Fprintf(log, "process %d ended: %v\n", c.process.PID, err)
		_ = log.Close() // it is only read when something else went wrong
	})
	return c, nil
}

// readReady passes the ready line on and reads the rest away until the process closes its output.
func readReady(stdout io.Reader, ready chan<- Ready) {
	lines := bufio.NewScanner(io.LimitReader(stdout, maxReadyLine))
	for lines.Scan() {
		var r Ready
		if json.Unmarshal(lines.Bytes(), &r) == nil && r.Address != "" {
			ready <- r
			break
		}
	}
	close(ready)
	_, _ = io.Copy(io.Discard, stdout) // ends when the process does
}

// lastWords returns the end of the child's log.
func (c *started) lastWords() string {
	if words := child.LastWords(c.logPath, 2000); words != "" {
		return words
	}
	return "it wrote nothing to " + c.logPath
}
