package gates

import (
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/hence-dev/hence/it/baselines"
	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sidecar/client"
)

// TestBaselines gives one workload to the ways in which agents share state and tools today, and to Hence over real
// sidecars and sinks.
func TestBaselines(t *testing.T) {
	const agents, scopes = 8, 4
	tasks := harness.Number(t, "HENCE_IT_BASELINE_TASKS", harness.OnReal(15, 15))
	load := baselines.MakeWorkload(1, agents, tasks, scopes)
	var rows []baselines.Row
	for i := range baselines.Ways(nil) {
		world := baselines.NewWorld(load.Orders)
		row, err := baselines.Run(t.Context(), load, world, baselines.Ways(world)[i])
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	row := underHence(t, load, agents)
	t.Log("\n" + table(append(rows, row)))
	can := 0
	for _, list := range load.Agents {
		for _, task := range list {
			if task.Fault != baselines.FaultTool {
				can++
			}
		}
	}
	if row.Leaks != 0 || row.Duplicates != 0 || row.Violations != 0 || row.Committed != can {
		t.Errorf("%+v: want no leaks, duplicates or violations, and the %d tasks committed that can be", row, can)
	}
	for _, other := range rows {
		if other.Leaks+other.Duplicates+other.Violations == 0 {
			t.Errorf("%s is faultless here: the workload tells nothing", other.Name)
		}
	}
}

func underHence(t *testing.T, load *baselines.Workload, agents int) baselines.Row {
	t.Helper()
	d, shop := harness.Deploy(t, harness.Start(t)), harness.OpenShop(t)
	way := &baselines.Hence{World: baselines.NewWorld(load.Orders), Tool: "card.charge"}
	var clients []*client.Client
	for _, s := range shop.Sidecars(t, d, agents) {
		clients = append(clients, s.Client)
	}
	way.Agents = clients
	way.Sent = func() (all []baselines.Arrival) {
		for _, c := range shop.Charges(t) {
			all = append(all, baselines.Arrival{Tx: c.Tx, Key: c.Key})
		}
		return all
	}
	row, err := baselines.Run(t.Context(), load, way.World, way)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(way.Sent()); n != row.Committed {
		t.Errorf("%d confirmations of %d committed tasks have arrived", n, row.Committed)
	}
	return row
}

// table lays rows out side by side.
func table(rows []baselines.Row) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "way\ttasks\tcommitted\tleaks\tduplicates\tviolations\trejections\twait\ttook")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%v\t%v\n", r.Name, r.Tasks, r.Committed, r.Leaks, r.Duplicates,
			r.Violations, r.Rejections, r.Wait.Round(time.Millisecond), r.Took.Round(time.Millisecond))
	}
	_ = w.Flush() // into memory
	return text.String()
}
