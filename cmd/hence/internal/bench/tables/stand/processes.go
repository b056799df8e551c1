package stand

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/hence-dev/hence/cmd/hence/internal/bench/tables"
	"github.com/hence-dev/hence/gate/child"
	"github.com/hence-dev/hence/streams/embedded"
)

// readyIn bounds the start of a process.
const readyIn = 60 * time.Second

// fleet is servers in this process, which stay, and parts of Hence over them that are processes of their own.
type fleet struct {
	servers *embedded.Servers
	dir     string // for journals, and for what processes say
	parts   []*part
}

// Fleet is part of tables.Ground.
func (s *Stand) Fleet(ctx context.Context) (tables.Fleet, error) {
	servers, err := embedded.Start(ctx, embedded.Options{})
	if err != nil {
		return nil, fmt.Errorf("start the embedded servers: %w", err)
	}
	s.made++
	f := &fleet{servers: servers, dir: filepath.Join(s.Dir, fmt.Sprint("fleet-", s.made))}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return nil, errors.Join(fmt.Errorf("make a folder for processes: %w", err), servers.Close())
	}
	return f, nil
}

// part is one process: the command that it is, and what runs of it.
type part struct {
	tables.Node
	args  []string
	log   string // the file that it writes to
	state string // the folder in which it says where it is, for commands of its user
	run   *child.Process
	input io.Closer // its end tells the process to end, also when this one is killed
}

// Processor is part of tables.Fleet.
func (f *fleet) Processor(ctx context.Context, group string) (tables.Part, error) {
	name := fmt.Sprint("processor-", len(f.parts))
	return f.start(ctx, name, "streams", "--replica", group, "--instance", name, "--replication", "1")
}

// Sidecar is part of tables.Fleet.
func (f *fleet) Sidecar(ctx context.Context, flags ...string) (tables.Part, error) {
	name := fmt.Sprint("node-", len(f.parts))
	bus, err := free()
	if err != nil {
		return nil, err
	}
	own := []string{"--agent", name, "--data-dir", filepath.Join(f.dir, name), "--sbus", bus, "--sbus-max-delta", "0"}
	return f.start(ctx, name, "sidecar", append(own, flags...)...)
}

// Whole is part of tables.Fleet.
func (f *fleet) Whole(ctx context.Context, folder bool) (tables.Part, error) {
	name := fmt.Sprint("whole-", len(f.parts))
	bus, err := free()
	if err != nil {
		return nil, err
	}
	own := []string{"--kafka-port", "0", "--nats-port", "0", "--console-port", "0", "--sbus", bus,
		"--sbus-max-delta", "0"}
	if folder {
		own = append(own, "--data-dir", filepath.Join(f.dir, name))
	}
	return f.run(ctx, name, "dev", own...)
}

// start starts a part over the servers.
func (f *fleet) start(ctx context.Context, name, command string, own ...string) (tables.Part, error) {
	return f.run(ctx, name, command, append(own, "--brokers", strings.Join(f.servers.Brokers, ","), "--nats",
		f.servers.NATS, "--partitions", "4", "--with-parent")...)
}

func (f *fleet) run(ctx context.Context, name, command string, own ...string) (tables.Part, error) {
	listen, err := free()
	if err != nil {
		return nil, err
	}
	p := &part{log: filepath.Join(f.dir, name+".log"), state: f.dir}
	p.args = append([]string{command, "--listen", listen, "--output", "json"}, own...)
	p.URL = "http://" + listen
	for i, flag := range own {
		if flag == "--sbus" {
			p.Bus = "http://" + own[i+1]
		}
	}
	f.parts = append(f.parts, p)
	return p, p.Start(ctx)
}

// At is part of tables.Part.
func (p *part) At() tables.Node { return p.Node }

// Start is part of tables.Part.
func (p *part) Start(ctx context.Context) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.Command(program, p.args...)
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "HENCE_") { // what this command is told is not the process's
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(cmd.Env, "XDG_STATE_HOME="+p.state)
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("keep what a process says: %w", err)
	}
	defer log.Close() // the process has it
	cmd.Stderr = log
	if p.input, err = cmd.StdinPipe(); err != nil {
		return fmt.Errorf("start %s: %w", p.args[0], err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start %s: %w", p.args[0], err)
	}
	said := make(chan bool, 1)
	p.run, err = child.Start(cmd, func() {
		if _, err := bufio.NewReader(out).ReadString('\n'); err == nil {
			said <- true // the line that says that it serves
		}
		_, _ = io.Copy(io.Discard, out) // ends with the process
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", p.args[0], err)
	}
	p.PID = int32(p.run.PID)
	ctx, cancel := context.WithTimeout(ctx, readyIn)
	defer cancel()
	select {
	case <-said:
		return p.serves(ctx)
	case <-p.run.Ended():
		return fmt.Errorf("%s ended: %s", p.args[0], child.LastWords(p.log, 2000))
	case <-ctx.Done():
		return fmt.Errorf("start %s: %w: %s", p.args[0], context.Cause(ctx), child.LastWords(p.log, 2000))
	}
}

// serves waits until a process says that it is ready.
func (p *part) serves(ctx context.Context) error {
	asks := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/readyz", nil)
		if err != nil {
			return fmt.Errorf("ask %s: %w", p.URL, err)
		}
		if resp, err := asks.Do(req); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-p.run.Ended():
			return fmt.Errorf("%s ended: %s", p.args[0], child.LastWords(p.log, 2000))
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", p.args[0], context.Cause(ctx))
		}
	}
}

// Kill is part of tables.Part.
func (p *part) Kill() error {
	if p.run == nil {
		return nil
	}
	err := p.run.Signal(syscall.SIGKILL)
	_, _ = p.run.Result() // that it was killed
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	return errors.Join(err, quiet(p.input.Close()))
}

// quiet leaves out that something is closed already.
func quiet(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// Close is part of tables.Fleet.
func (f *fleet) Close() (err error) {
	for _, p := range f.parts {
		err = errors.Join(err, p.Kill())
	}
	return errors.Join(err, f.servers.Close())
}

// free is an address of this machine that has no listener.
func free() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}
