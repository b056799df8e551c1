package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/hence-dev/hence/sidecar/client"
)

// playAcross is an agent's program that reads a shard of its own, or goes on in another process, which builds on that;
// told to read again, it says so and does.
func playAcross(ctx context.Context, c *client.Client, part string) int {
	err := error(nil)
	for n := 0; n < 8 && err == nil && part == "read"; n++ {
		_, err = c.Put(ctx, "shard:/x", []byte(strconv.Itoa(n)), client.WriteOptions{})
	}
	if part == "read" && err == nil {
		_, err = c.Get(ctx, "shard:/x")
	}
	if part == "build" {
		var d client.Decision
		var p *client.Problem
		d, err = c.Put(ctx, "shard:/y", []byte("rests on x"), client.WriteOptions{})
		if errors.As(err, &p) && p.Status == 410 {
			fmt.Println("told to read again")
			d, err = c.Put(ctx, "shard:/y", []byte("rests on nothing"), client.WriteOptions{})
		} else if d.Code == "too_old" || d.Code == "stale_read" { // the read binds, and others went on meanwhile
			d, err = c.Put(ctx, "shard:/y", []byte("rests on nothing"), client.WriteOptions{})
		}
		if fmt.Println(d.State, d.Code); d.State != "committed" {
			return 1
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// devProgram runs "hence dev" in a process of its own.
func devProgram(t *testing.T, ports []int, args ...string) (*program, Dev) {
	t.Helper()
	p := startProgram(t, append([]string{"dev", "-o", "json", "--kafka-port", strconv.Itoa(ports[0]), "--nats-port",
		strconv.Itoa(ports[1]), "--port", "0", "--console-port", "0"}, args...)...)
	var dev Dev
	if err := json.Unmarshal([]byte(p.out.await(t, "{")), &dev); err != nil {
		t.Fatal(err)
	}
	return p, dev
}

// "hence dev" is started again under agents of "hence run" that keep their journals in one place. In memory its log is
// another one: what they read before is said to be gone, once, and they go on; a program that runs meanwhile is ended.
// With a data folder the log is the same, and no session is lost.
func TestDevAgain(t *testing.T) {
	starts := 2
	if testing.Short() {
		starts = 1
	}
	for name, args := range map[string][]string{"in memory": nil, "with a data folder": {"--data-dir", t.TempDir()}} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_STATE_HOME", t.TempDir())
			ports, dir := freePorts(t, 2), t.TempDir()
			dev, at := devProgram(t, ports, args...)
			line := func(agent string, program ...string) []string {
				return append([]string{"run", "--agent", agent, "--data-dir", dir, "--brokers", strings.Join(at.Brokers, ","),
					"--nats", at.NATS, "--"}, program...)
			}
			t.Setenv(asAgent, "read")
			if code := startProgram(t, line("w", os.Args[0])...).code(t); code != 0 {
				t.Fatalf("exit code %d", code)
			}
			lives := startProgram(t, line("lives", "sh", "-c", "echo begun; while :; do sleep 0.05; done")...)
			lives.out.await(t, "begun")
			for range starts {
				dev.signal(t, syscall.SIGTERM)
				if code := dev.code(t); code != ExitOK {
					t.Fatalf("hence dev ends with exit code %d", code)
				}
				dev, at = devProgram(t, ports, args...)
				for n, told := range []bool{args == nil, false} {
					t.Setenv(asAgent, "build")
					p := startProgram(t, line("w", os.Args[0])...)
					code, out := p.code(t), p.out.text()
					if code != 0 || strings.Contains(out, "told") != told || !strings.Contains(out, "committed") {
						t.Errorf("run %d: exit code %d, %q", n, code, out)
					}
				}
			}
			if args == nil {
				if code := lives.code(t); code != ExitFailed || lives.errs.count("all that it held is lost") == 0 {
					t.Errorf("the agent that ran meanwhile: exit code %d", code)
				}
				return
			}
			lives.signal(t, syscall.SIGTERM)
			if code := lives.code(t); code != 143 {
				t.Errorf("the agent that ran meanwhile, on the same log: exit code %d", code)
			}
		})
	}
}
