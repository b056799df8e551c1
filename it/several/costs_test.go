package several

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sidecar/client"
)

// The work of a measurement, and how long a sidecar may take to serve.
const (
	turnsEach  = 20
	serveBound = 2 * time.Minute
)

// TestSeveralCosts prints what agents cost in one process and in many: memory, and CPU for a transaction of one read
// and one write.
func TestSeveralCosts(t *testing.T) {
	servers := harness.StartOwn(t)
	d := harness.Deploy(t, servers)
	t.Logf("%7s %9s %10s %12s %14s %16s", "agents", "processes", "MB in all", "KB an agent", "CPU s in all",
		"CPU ms for one")
	most := harness.Number(t, "HENCE_IT_COSTS", 16)
	for _, c := range []struct{ agents, processes int }{{1, 1}, {16, 1}, {128, 1}, {16, 16}} {
		if c.agents <= most {
			t.Run(fmt.Sprintf("%d in %d", c.agents, c.processes), func(t *testing.T) {
				costs(t, servers, fmt.Sprint(d.Workspace, "-", c.agents, "-", c.processes), c.agents, c.processes)
			})
		}
	}
}

func costs(t *testing.T, servers *harness.Servers, workspace string, agents, processes int) {
	dir := t.TempDir()
	var running []*harness.Process
	var clients []*client.Client
	for p := range processes {
		var list strings.Builder
		tokens := make([]string, agents/processes)
		for i := range tokens {
			tokens[i] = fmt.Sprintf("token-of-agent-%d-%d", p, i)
			fmt.Fprintf(&list, "- name: a-%d-%d\n  token: %s\n", p, i, tokens[i])
		}
		file := filepath.Join(dir, fmt.Sprint("agents-", p))
		if err := os.WriteFile(file, []byte(list.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		one, line := harness.SpawnServing(t, serveBound, harness.Binary(t), "sidecar", "--agents-file", file, "--workspace",
			workspace, "--brokers", strings.Join(servers.Brokers, ","), "--nats", servers.NATS, "--data-dir",
			filepath.Join(dir, fmt.Sprint(p)), "--listen", "127.0.0.1:0", "--output", "json")
		var ready struct{ Address string }
		if err := json.Unmarshal(line, &ready); err != nil {
			t.Fatal(err)
		}
		running = append(running, one)
		for _, token := range tokens {
			clients = append(clients, client.New(ready.Address, token, client.WithWorkspace(workspace)))
		}
	}
	before := cpuOf(t, running)
	turns(t, clients)
	memory, cpu := memoryOf(t, running), cpuOf(t, running)-before
	n := float64(agents * turnsEach)
	t.Logf("%7d %9d %10.0f %12.0f %14.2f %16.2f", agents, processes, memory/1024, memory/float64(agents), cpu.Seconds(),
		1000*cpu.Seconds()/n)
	for _, one := range running {
		if err := one.Kill(); err != nil {
			t.Error(err)
		}
	}
}

// turns lets each agent commit its transactions, all agents at once.
func turns(t *testing.T, clients []*client.Client) {
	ctx, cancel := context.WithTimeout(t.Context(), harness.DemoBound)
	defer cancel()
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() {
			defer c.Close()
			for range turnsEach {
				if err := turn(ctx, c, fmt.Sprint("shard:/", i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

func turn(ctx context.Context, c *client.Client, scope string) error {
	tx, err := c.Begin(ctx, client.BeginOptions{})
	if err != nil {
		return err
	}
	if _, err = tx.Read(ctx, scope); err != nil {
		return err
	}
	if err = tx.Write(ctx, scope, []byte("x"), client.WriteOptions{}); err != nil {
		return err
	}
	d, err := tx.Seal(ctx)
	if err == nil && d.State != "committed" {
		err = fmt.Errorf("%+v", d)
	}
	return err
}

// memoryOf is what processes have resident, in KB.
func memoryOf(t *testing.T, all []*harness.Process) (kb float64) {
	for _, p := range all {
		for line := range strings.Lines(readProc(t, p, "status")) {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmRSS:" {
				n, _ := strconv.ParseFloat(fields[1], 64) // the kernel writes a number
				kb += n
			}
		}
	}
	return kb
}

// cpuOf is how long processes have computed.
func cpuOf(t *testing.T, all []*harness.Process) (sum time.Duration) {
	const tick = time.Second / 100
	for _, p := range all {
		_, rest, _ := strings.Cut(readProc(t, p, "stat"), ") ")
		for i, text := range strings.Fields(rest) {
			if i == 11 || i == 12 { // utime and stime
				n, _ := strconv.ParseInt(text, 10, 64)
				sum += time.Duration(n) * tick
			}
		}
	}
	return sum
}

func readProc(t *testing.T, p *harness.Process, file string) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.PID, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
