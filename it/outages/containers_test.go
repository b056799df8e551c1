package outages

import (
	"crypto/rand"
	"fmt"
	"math/bits"
	random "math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/streams"
)

// Sizes and bounds of the container test.
const (
	boxSidecars = 3
	boxWorkers  = 2                // agents' programs at each sidecar
	boxAgain    = 90 * time.Second // from the end of a fault until transactions are committed again
	boxMinRate  = 1.0              // commits a second over the whole run, below which it shows nothing
)

// boxLab is a workspace whose every part is a container.
type boxLab struct {
	*harness.Deployment
	fleet     *harness.Fleet
	shop      *harness.Shop
	groups    [][]*harness.Box // what is started together: Kafka, NATS, processors, sidecars
	residents []*client.Client // of the sidecars
	agents    []*boxAgent
	load      *boxLoad
	faults    []fault
	voids     int
}

// openBoxLab starts Kafka, NATS, two processors and some sidecars as containers, and the tools' sinks beside them.
func openBoxLab(t *testing.T) *boxLab {
	t.Helper()
	harness.NeedContainers(t)
	binary, err := harness.BuildStatic("", os.Getenv(harness.EnvDir))
	if err != nil {
		t.Fatal(err)
	}
	fleet := harness.OpenFleet(t, 1, 1)
	lab := &boxLab{Deployment: harness.Over(t, fleet.Servers), fleet: fleet, load: newBoxLoad(),
		shop: harness.OpenShopAt(t, fleet.Net.Gateway)}
	lab.shop.Root = "/var/lib/hence"
	if err := streams.EnsureTopics(t.Context(), lab.Config); err != nil {
		t.Fatal(err)
	}
	image := fleet.Net.Image(t, binary)
	ports, err := harness.FreePorts(2 + boxSidecars)
	if err != nil {
		t.Fatal(err)
	}
	var recipes []harness.Recipe
	for i := range 2 {
		recipes = append(recipes, fleet.Streams(image, fmt.Sprint("streams-", i+1), "a", ports[i]))
	}
	token, policy := rand.Text(), lab.shop.Policy(t)
	for i := range boxSidecars {
		agent, port := fmt.Sprint("agent-", i+1), ports[2+i]
		recipes = append(recipes, fleet.Sidecar(image, agent, lab.Workspace, token, policy, port))
		cl := client.New(fmt.Sprint("http://127.0.0.1:", port), token, client.WithWorkspace(lab.Workspace),
			client.WithTries(2))
		t.Cleanup(cl.Close)
		lab.residents = append(lab.residents, cl)
		for w := range boxWorkers {
			seed := uint64(i*boxWorkers + w)
			lab.agents = append(lab.agents, &boxAgent{name: agent, cl: cl, rng: random.New(random.NewPCG(17, seed))})
		}
	}
	boxes, err := fleet.Net.AddAll(recipes)
	if err != nil {
		t.Fatal(err)
	}
	lab.groups = [][]*harness.Box{fleet.Kafka, fleet.NATS, boxes[:2], boxes[2:]}
	t.Logf("servers: %s, kafka %v, nats %s, 2 processors and %d sidecars", fleet.Kind, fleet.Brokers, fleet.Servers.NATS,
		boxSidecars)
	return lab
}

// TestContainers kills, pauses and disconnects containers of Kafka, NATS, processors and sidecars under load, then
// starts all of them in different orders. Afterwards everything that the suite checks of a history holds.
func TestContainers(t *testing.T) {
	each := harness.Number(t, "HENCE_IT_CONTAINER_FAULTS", 2)
	restarts := harness.Number(t, "HENCE_IT_CONTAINER_ORDERS", 1)
	lab := openBoxLab(t)
	began := time.Now()
	end := lab.load.run(t.Context(), lab.agents)
	if err := lab.load.reach(20, boxAgain); err != nil {
		end()
		t.Fatal(err)
	}
	err := lab.plague(t, each)
	for i := 0; i < restarts && err == nil; i++ {
		err = lab.restart(t, i)
	}
	took := time.Since(began)
	end()
	if err != nil {
		t.Fatal(err)
	}
	figures, commits := lab.load.figures()
	t.Logf("%d faults landed, %d were void, all started again in %d orders; %s in %v", len(lab.faults), lab.voids,
		restarts, figures, took.Round(time.Second))
	if rate := float64(commits) / took.Seconds(); rate < boxMinRate {
		t.Fatalf("void: %.2f commits a second show nothing, want %v", rate, boxMinRate)
	}
	lab.load.lastOnes(t, lab.agents)
	lab.judge(t)
}

// restart ends everything without a farewell and starts it in one of the orders: the first one is the least kind, what
// others need comes last.
func (l *boxLab) restart(t *testing.T, nth int) error {
	t.Helper()
	order := permutation(len(l.groups), nth)
	var names []string
	for _, group := range l.groups {
		for _, b := range group {
			if err := b.Kill(); err != nil {
				return err
			}
		}
	}
	start := time.Now()
	for _, i := range order {
		for _, b := range l.groups[i] {
			if err := b.Start(); err != nil {
				return err
			}
			names = append(names, b.Alias)
		}
	}
	for _, b := range slices.Concat(l.groups...) {
		if err := b.Serving(); err != nil {
			return fmt.Errorf("started in the order %v: %w", names, err)
		}
		if running, _, err := b.Running(); err != nil || !running {
			return fmt.Errorf("started in the order %v: %s has ended: %w", names, b.Alias, err)
		}
	}
	ready := time.Since(start)
	if err := l.load.reach(10, boxAgain); err != nil {
		return fmt.Errorf("started in the order %v: %w", names, err)
	}
	t.Logf("started in the order %s: all ready after %v, transactions went on after %v", strings.Join(names, " "),
		ready.Round(time.Millisecond), time.Since(start).Round(time.Millisecond))
	return nil
}

// permutation is the nth of the orders of n things, counted from the reverse one.
func permutation(n, nth int) []int {
	left := make([]int, n)
	for i := range left {
		left[i] = n - 1 - i
	}
	var order []int
	for ; n > 0; n-- {
		i := nth % n
		nth /= n
		order = append(order, left[i])
		left = slices.Delete(left, i, i+1)
	}
	return order
}

// TestPermutation holds that the orders differ.
func TestPermutation(t *testing.T) {
	seen := map[string]bool{}
	for i := range 24 {
		order := permutation(4, i)
		set := 0
		for _, at := range order {
			set |= 1 << at
		}
		if bits.OnesCount(uint(set)) != 4 {
			t.Errorf("order %d is %v", i, order)
		}
		seen[fmt.Sprint(order)] = true
	}
	if len(seen) != 24 {
		t.Errorf("%d orders of 24 differ", len(seen))
	}
}
