//go:build failpoints

package failpoint

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Enabled says whether this build can be killed at a point.
const Enabled = true

// The environment of a process that shall be killed, and of one whose hits shall be counted.
const (
	envKill = "HENCE_FAILPOINT"     // name:nth, nth from 1
	envLog  = "HENCE_FAILPOINT_LOG" // a file; each hit appends "name count"
)

// counters count this process's hits.
type counters struct {
	mu   sync.Mutex
	hits map[Point]int
	kill Point
	nth  int
	log  *os.File
}

var active = sync.OnceValue(func() *counters {
	c, err := load(os.Getenv(envKill), os.Getenv(envLog))
	if err != nil {
		panic(err)
	}
	return c
})

func load(kill, log string) (*counters, error) {
	c := &counters{hits: make(map[Point]int)}
	if kill != "" {
		name, nth, _ := strings.Cut(kill, ":")
		c.kill = Point(name)
		n, err := strconv.Atoi(nth)
		if err != nil || n < 1 || !slices.Contains(All(), c.kill) {
			return nil, fmt.Errorf("failpoint: %s=%q: give name:nth with a name of failpoint.All and nth from 1", envKill, kill)
		}
		c.nth = n
	}
	if log != "" {
		f, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("failpoint: opening the log of hits: %w", err)
		}
		c.log = f
	}
	return c, nil
}

// Hit counts, and kills the process with SIGKILL when its time has come: nothing is flushed, nothing is deferred.
func Hit(p Point) {
	if active().hit(p) {
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			panic(fmt.Sprintf("failpoint: killing the process at %s: %v", p, err))
		}
		select {} // the signal is on its way: nothing more may happen here
	}
}

// hit counts one, writes it down and says whether it is the one to die at.
func (c *counters) hit(p Point) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hits[p]++
	if c.log != nil {
		if _, err := fmt.Fprintf(c.log, "%s %d\n", p, c.hits[p]); err != nil {
			panic(fmt.Sprintf("failpoint: writing down a hit of %s: %v", p, err))
		}
	}
	return p == c.kill && c.hits[p] == c.nth
}
