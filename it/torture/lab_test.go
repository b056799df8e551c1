// Package torture runs the built binary on real servers under load while a nemesis breaks one thing after another, and
// judges what the agents were told by checkers that know nothing of the fold.
package torture

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hence-dev/hence/gate/failpoint"
	"github.com/hence-dev/hence/it/harness"
)

// The lab's size and bounds.
const (
	agents     = 4                // sidecars, each a process
	workers    = 10               // conversations of one agent
	diskSize   = "512m"           // of one sidecar's file system: a journal has up to 50 MB, moved aside too
	serveBound = 90 * time.Second // until a part that was started serves
	token      = "a-token-of-the-torture-lab"
	groupSide  = "SIDECARS"   // listener of Kafka that sidecars use
	groupProc  = "PROCESSORS" // the one that processors use
)

// lab is one cluster with what is broken in it: brokers, NATS, two replicas of processors, a sidecar for each agent.
// Between them and the servers stand links, and each sidecar's journal has a small file system of its own.
type lab struct {
	testing.TB
	servers   *harness.Servers // past the links: the judge's way
	scripts   string
	kafka     string // folders of the scripts
	nats      string
	brokers   int
	plain     string // the binary
	traced    string // the one with failpoints
	workspace string
	links     map[string][]*link // by clients and server: "sidecars-kafka"
	procs     []*part
	cars      []*part
	shop      *harness.Shop
	box       int // process whose mount namespace holds the sidecars' file systems; zero: there is none
	boxless   string
	points    map[string]int          // failpoints at which a sidecar died
	idle      map[failpoint.Point]int // those that were waited for in vain: this load does not pass them
	*load
}

// openLab starts everything.
func openLab(tb testing.TB, brokers int) *lab {
	tb.Helper()
	dir := tb.TempDir()
	l := &lab{TB: tb, scripts: os.Getenv(harness.EnvServers), kafka: filepath.Join(dir, "kafka"),
		nats: filepath.Join(dir, "nats"), brokers: brokers, plain: harness.Binary(tb),
		traced: harness.Binary(tb, "failpoints"), links: map[string][]*link{},
		points: map[string]int{}, idle: map[failpoint.Point]int{}}
	tb.Cleanup(func() {
		if err := errors.Join(l.kafkaDo("stop"), l.natsDo("stop")); err != nil {
			tb.Errorf("stop the servers: %v", err)
		}
	})
	l.startKafka()
	l.must(l.natsDo("start"))
	l.servers = &harness.Servers{Kind: "real", Brokers: strings.Split(l.file(l.kafka, "addr"), ","),
		NATS: l.file(l.nats, "addr")}
	l.linkNATS()
	l.workspace = fmt.Sprintf("torture-%d", time.Now().UnixNano())
	l.openBox(dir)
	l.startProcessors()
	l.startSidecars(dir)
	return l
}

func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l *lab) file(parts ...string) string {
	text, err := os.ReadFile(filepath.Join(parts...))
	l.must(err)
	return strings.TrimSpace(string(text))
}

func (l *lab) kafkaDo(verb string, args ...string) error {
	return harness.Script(filepath.Join(l.scripts, "kafka"), append([]string{verb, "--dir", l.kafka}, args...)...)
}

func (l *lab) natsDo(verb string, args ...string) error {
	return harness.Script(filepath.Join(l.scripts, "nats"), append([]string{verb, "--dir", l.nats}, args...)...)
}

// startKafka starts the brokers with two more listeners, one for sidecars and one for processors, whose advertised
// addresses are links.
func (l *lab) startKafka() {
	l.must(l.kafkaDo("start", "--brokers", strconv.Itoa(l.brokers)))
	l.must(l.kafkaDo("stop")) // only now is it known which ports the script took
	for i := range l.brokers {
		path := filepath.Join(l.kafka, strconv.Itoa(i+1), "server.properties")
		ports, err := harness.FreePorts(2)
		l.must(err)
		text := l.file(path)
		for n, group := range []string{groupSide, groupProc} {
			between := openLink(l)
			between.to = net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[n]))
			name := strings.ToLower(group) + "-kafka"
			l.links[name] = append(l.links[name], between)
			text = appendTo(text, "listeners=", group+"://"+between.to)
			text = appendTo(text, "advertised.listeners=", group+"://"+between.addr())
			text = appendTo(text, "listener.security.protocol.map=", group+":PLAINTEXT")
		}
		l.must(os.WriteFile(path, []byte(text+"\ninter.broker.listener.name=PLAINTEXT\n"), 0o600))
	}
	l.must(l.kafkaDo("up"))
}

// appendTo adds a value to the list of one setting.
func appendTo(text, setting, value string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, setting) {
			lines[i] = line + "," + value
		}
	}
	return strings.Join(lines, "\n")
}

func (l *lab) linkNATS() {
	where, err := url.Parse(l.servers.NATS)
	l.must(err)
	for _, group := range []string{groupSide, groupProc} {
		between := openLink(l)
		between.to = where.Host
		l.links[strings.ToLower(group)+"-nats"] = []*link{between}
	}
}

// addresses are the brokers and the NATS server as one group of clients reaches them.
func (l *lab) addresses(group string) []string {
	var all []string
	for _, between := range l.links[strings.ToLower(group)+"-kafka"] {
		all = append(all, between.addr())
	}
	return []string{"--brokers", strings.Join(all, ","),
		"--nats", "nats://" + l.links[strings.ToLower(group)+"-nats"][0].addr()}
}

// openBox makes a mount namespace with a small file system for each sidecar. Where that is not allowed, sidecars keep
// their journals on the machine's disk, which is not filled.
func (l *lab) openBox(dir string) {
	mounts := "set -e; mount --make-rprivate /; "
	for i := range agents {
		disk := l.disk(dir, i)
		l.must(os.MkdirAll(disk, 0o700))
		mounts += fmt.Sprintf("mount -t tmpfs -o size=%s,mode=700 none '%s'; ", diskSize, disk)
	}
	cmd := exec.Command("unshare", "--mount", "sh", "-c", mounts+"echo ready; exec sleep infinity")
	p, _, err := harness.Launch(l, serveBound, cmd)
	if err != nil {
		l.boxless = "no mount namespace could be made"
		return
	}
	l.box = p.PID
}

func (l *lab) disk(dir string, i int) string { return filepath.Join(dir, fmt.Sprint("disk-", i+1)) }

func (l *lab) startProcessors() {
	for _, replica := range []string{"a", "b"} {
		args := append([]string{"streams", "--replica", replica, "--instance", "torture-" + replica, "--listen",
			"127.0.0.1:0", "--output", "json", "--replication", strconv.Itoa(l.brokers)}, l.addresses(groupProc)...)
		p := &part{lab: l, name: "processor-" + replica, args: args}
		l.must(p.start())
		l.procs = append(l.procs, p)
	}
}

func (l *lab) startSidecars(dir string) {
	l.shop = harness.OpenShop(l)
	policy := filepath.Join(dir, "shop.yaml")
	l.must(os.WriteFile(policy, []byte(l.shop.Policy(l)), 0o600))
	ports, err := harness.FreePorts(agents)
	l.must(err)
	for i, port := range ports {
		name := fmt.Sprint("agent-", i+1)
		args := append([]string{"sidecar", "--agent", name, "--workspace", l.workspace, "--listen",
			net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), "--data-dir", l.disk(dir, i), "--policy", policy, "--token",
			token, "--output", "json", "--log-level", "info"}, l.addresses(groupSide)...)
		p := &part{lab: l, name: name, args: args, disk: l.disk(dir, i), url: fmt.Sprintf("http://127.0.0.1:%d", port)}
		l.must(p.start())
		l.cars = append(l.cars, p)
	}
	l.load = newLoad(l.cars, l.workspace, "first")
}

// part is one process of the binary, which may die and is started again under its name.
type part struct {
	*lab
	name, url, disk string
	args            []string

	mu      sync.Mutex
	process *harness.Process
}

// how is a way to start a part that is not the usual one.
type how struct {
	env   []string
	clock time.Duration // that the machine seems to be up for longer
}

func (p *part) start() error { return p.startAs(how{}) }

// startAs starts it and waits until it serves. With an environment of failpoints it is the binary that has them.
func (p *part) startAs(h how) error {
	binary := p.plain
	if len(h.env) > 0 {
		binary = p.traced
	}
	line := append([]string{binary}, p.args...)
	if h.clock != 0 {
		seconds := strconv.Itoa(int(h.clock.Seconds()))
		line = append([]string{"unshare", "--time", "--monotonic", seconds, "--boottime", seconds, "--"}, line...)
	}
	if p.disk != "" && p.box != 0 {
		line = append([]string{"nsenter", "--target", strconv.Itoa(p.box), "--mount", "--"}, line...)
	}
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = h.env
	process, ready, err := harness.Launch(p, serveBound, cmd)
	p.mu.Lock()
	p.process = process
	p.mu.Unlock()
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	var where struct{ Address string }
	if err := json.Unmarshal(ready, &where); err != nil {
		return fmt.Errorf("start %s: %w: %s", p.name, err, ready)
	}
	if p.disk == "" {
		p.url = where.Address
	}
	return nil
}

func (p *part) running() *harness.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process
}

// kill ends it without a farewell and says whether it was running until then.
func (p *part) kill() (bool, error) {
	process := p.running()
	select {
	case <-process.Ended():
		return false, nil
	default:
		return true, process.Kill()
	}
}

// died waits until it has ended by itself.
func (p *part) died(bound time.Duration) bool {
	select {
	case <-p.running().Ended():
		return true
	case <-time.After(bound):
		return false
	}
}

// inDisk is the path of something on a sidecar's file system as this process reaches it.
func (p *part) inDisk(name string) string {
	if p.box == 0 {
		return filepath.Join(p.disk, name)
	}
	return filepath.Join("/proc", strconv.Itoa(p.box), "root", p.disk, name)
}

// stopped says whether a process does not run because of a SIGSTOP.
func stopped(pid int) bool {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.HasPrefix(rest, "T")
}

// hold stops processes for a while and says whether they all stood still.
func hold(pids []int, d time.Duration) (landed bool, err error) {
	landed = len(pids) > 0
	for _, pid := range pids {
		err = errors.Join(err, syscall.Kill(pid, syscall.SIGSTOP))
	}
	pass(d)
	for _, pid := range pids {
		landed = stopped(pid) && landed
		err = errors.Join(err, syscall.Kill(pid, syscall.SIGCONT))
	}
	return landed, err
}

// pass lets time pass: a fault lasts.
func pass(d time.Duration) { <-time.After(d) }

// pids are the processes of brokers or of NATS.
func (l *lab) pids(paths ...string) (all []int) {
	for _, path := range paths {
		pid, err := strconv.Atoi(l.file(path, "pid"))
		l.must(err)
		all = append(all, pid)
	}
	return all
}
