package harness

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/wait"
)

// EnvContainers set to 1 makes the suite start its servers as containers.
const EnvContainers = "HENCE_TEST_CONTAINERS"

// Images that containers are made of.
const (
	imageKafka = "apache/kafka:4.3.0"
	imageNATS  = "nats:2.15"
)

// Bounds of containers.
const (
	startBound  = 3 * time.Minute // until a container that was just made serves
	returnBound = 3 * time.Minute
	engineBound = 30 * time.Second // one request to the engine
)

// labelRun marks what a run made; its value names the machine and the process.
const labelRun = "hence.test.run"

// ErrNoEngine is returned when there is no engine that runs containers.
var ErrNoEngine = errors.New("no container engine answers: start Docker (DOCKER_HOST names another address than its " +
	"socket) with the images " + imageKafka + " and " + imageNATS)

// Containers says whether the environment asks for containers.
func Containers() bool { return os.Getenv(EnvContainers) == "1" }

// NeedContainers skips a test that makes containers of its own unless the environment asks for containers; then an
// engine that does not answer is a failure.
func NeedContainers(tb testing.TB) {
	tb.Helper()
	if !Containers() {
		tb.Skipf("it makes containers of its own: start Docker with the images %s and %s and set %s=1", imageKafka,
			imageNATS, EnvContainers)
	}
	e, err := openEngine()
	if err != nil {
		tb.Fatal(err)
	}
	e.close()
}

// engine is the connection to the container engine.
type engine struct{ api *testcontainers.DockerClient }

func openEngine() (*engine, error) {
	ctx, cancel := context.WithTimeout(context.Background(), engineBound)
	defer cancel()
	// The reaper is a container whose image would have to be fetched: what a killed run left, the next one removes.
	if err := os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true"); err != nil {
		return nil, err
	}
	tclog.SetDefault(tclog.NewNoopLogger()) // what it runs on is said by the test
	api, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err == nil {
		_, err = api.Ping(ctx, client.PingOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoEngine, err)
	}
	for _, image := range []string{imageKafka, imageNATS} {
		if _, err := api.ImageInspect(ctx, image); err != nil {
			return nil, fmt.Errorf("the container engine has no image %s: run docker pull %s: %w", image, image, err)
		}
	}
	return &engine{api}, nil
}

func (e *engine) close() { _ = e.api.Close() } // idle connections

func runLabel() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "/" + strconv.Itoa(os.Getpid())
}

// sweep removes containers, networks and images of runs on this machine that were killed before they could.
func (e *engine) sweep(ctx context.Context) error {
	filters := client.Filters{}.Add("label", labelRun)
	boxes, err := e.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	nets, err := e.api.NetworkList(ctx, client.NetworkListOptions{Filters: filters})
	if err != nil {
		return fmt.Errorf("list networks: %w", err)
	}
	images, err := e.api.ImageList(ctx, client.ImageListOptions{Filters: filters})
	if err != nil {
		return fmt.Errorf("list images: %w", err)
	}
	for _, b := range boxes.Items {
		if gone(b.Labels[labelRun]) {
			_, e := e.api.ContainerRemove(ctx, b.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
			err = errors.Join(err, e)
		}
	}
	for _, n := range nets.Items {
		if gone(n.Labels[labelRun]) {
			_, e := e.api.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{})
			err = errors.Join(err, e)
		}
	}
	for _, i := range images.Items {
		if gone(i.Labels[labelRun]) {
			_, e := e.api.ImageRemove(ctx, i.ID, client.ImageRemoveOptions{Force: true, PruneChildren: true})
			err = errors.Join(err, e)
		}
	}
	return err
}

// gone says whether the run of a label was on this machine and has ended.
func gone(label string) bool {
	host, id, ok := strings.Cut(label, "/")
	ours, _, _ := strings.Cut(runLabel(), "/")
	pid, err := strconv.Atoi(id)
	return ok && host == ours && err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// Net is a network of containers.
type Net struct {
	*engine
	Name    string
	Gateway string // address of this machine there

	mu    sync.Mutex
	boxes []*Box
}

// OpenNet makes a network; what is in it ends with the test.
func OpenNet(tb testing.TB) *Net {
	tb.Helper()
	n, err := openNet()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		n.say(tb)
		if err := n.Close(); err != nil {
			tb.Error(err)
		}
	})
	return n
}

// say logs the last words of containers when the test has failed.
func (n *Net) say(tb testing.TB) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, b := range n.boxes {
		if tb.Failed() {
			tb.Logf("last words of the container %s:\n%s", b.Alias, b.Words(12))
		}
	}
}

func openNet() (*Net, error) {
	e, err := openEngine()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), engineBound)
	defer cancel()
	if err := e.sweep(ctx); err != nil {
		return nil, fmt.Errorf("remove what former runs left: %w", err)
	}
	n := &Net{engine: e, Name: fmt.Sprintf("hence-it-%d-%s", os.Getpid(), strings.ToLower(rand.Text()[:8]))}
	made, err := e.api.NetworkCreate(ctx, n.Name, client.NetworkCreateOptions{Driver: "bridge",
		Labels: map[string]string{labelRun: runLabel()}})
	if err != nil {
		return nil, fmt.Errorf("create a network: %w", err)
	}
	seen, err := e.api.NetworkInspect(ctx, made.ID, client.NetworkInspectOptions{})
	if err != nil || len(seen.Network.IPAM.Config) == 0 {
		return nil, fmt.Errorf("look at the network %s: %w", n.Name, err)
	}
	n.Gateway = seen.Network.IPAM.Config[0].Gateway.String()
	return n, nil
}

// Close removes the network and every container in it.
func (n *Net) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), engineBound)
	defer cancel()
	err := n.removeBoxes(ctx)
	_, netErr := n.api.NetworkRemove(ctx, n.Name, client.NetworkRemoveOptions{})
	n.close()
	return errors.Join(err, netErr)
}

// removeBoxes removes the network's containers, once.
func (n *Net) removeBoxes(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	for _, b := range n.boxes {
		_, err := n.api.ContainerRemove(ctx, b.id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		errs = append(errs, err)
	}
	n.boxes = nil
	return errors.Join(errs...)
}

// Recipe is how a container is made.
type Recipe struct {
	Image string
	Alias string // its name in the network
	Env   map[string]string
	Cmd   []string
	Files []File
	// Ports are published on 127.0.0.1: port in the container to port of this machine.
	Ports map[string]int
	Log   string // a line that it writes once it serves; empty: do not wait
	// Answers asks whether it serves, after a fault.
	Answers func(ctx context.Context) error
}

// File is a file of a container.
type File struct {
	Path, Text string
}

// Add makes a container and waits until it serves.
func (n *Net) Add(r Recipe) (*Box, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startBound)
	defer cancel()
	bindings := network.PortMap{}
	exposed := make([]string, 0, len(r.Ports))
	for inside, outside := range r.Ports {
		bindings[network.MustParsePort(inside+"/tcp")] = []network.PortBinding{
			{HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: strconv.Itoa(outside)}}
		exposed = append(exposed, inside+"/tcp")
	}
	options := []testcontainers.ContainerCustomizer{
		testcontainers.WithEnv(r.Env), testcontainers.WithExposedPorts(exposed...),
		testcontainers.WithLabels(map[string]string{labelRun: runLabel()}),
		testcontainers.WithHostConfigModifier(func(h *container.HostConfig) {
			h.PortBindings = bindings
		}),
		testcontainers.CustomizeRequestOption(func(req *testcontainers.GenericContainerRequest) error {
			req.Logger, req.Networks = tclog.NewNoopLogger(), []string{n.Name}
			req.NetworkAliases = map[string][]string{n.Name: {r.Alias}}
			return nil
		}),
	}
	if len(r.Cmd) > 0 {
		options = append(options, testcontainers.WithCmd(r.Cmd...))
	}
	for _, f := range r.Files {
		options = append(options, testcontainers.WithFiles(testcontainers.ContainerFile{
			Reader: strings.NewReader(f.Text), ContainerFilePath: f.Path, FileMode: 0o644}))
	}
	if r.Log != "" {
		options = append(options, testcontainers.WithWaitStrategyAndDeadline(startBound, wait.ForLog(r.Log)))
	}
	made, err := testcontainers.Run(ctx, r.Image, options...)
	if made == nil {
		return nil, fmt.Errorf("start a container of %s: %w", r.Image, err)
	}
	b := &Box{net: n, id: made.GetContainerID(), Alias: r.Alias, answers: r.Answers}
	n.mu.Lock()
	n.boxes = append(n.boxes, b)
	n.mu.Unlock()
	if err == nil {
		err = b.serving(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("start a container of %s: %w\n%s", r.Image, err, b.Words(20))
	}
	return b, nil
}

// AddAll makes containers at once.
func (n *Net) AddAll(recipes []Recipe) ([]*Box, error) {
	all, errs := make([]*Box, len(recipes)), make([]error, len(recipes))
	var starting sync.WaitGroup
	for i, r := range recipes {
		starting.Go(func() { all[i], errs[i] = n.Add(r) })
	}
	starting.Wait()
	return all, errors.Join(errs...)
}
