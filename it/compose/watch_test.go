package compose

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
)

// watch looks at what the profile "watch" adds: the viewer, and the dashboard. It runs Debian's Prometheus on the
// compose files' configuration against the running cluster, with the names that only containers know written as
// addresses, and asks it every query of the dashboard. Grafana itself is not run: there is no image of it where these
// tests run.
func (s *stack) watch(t *testing.T) {
	start := time.Now()
	s.Must(t, "--profile", "watch", "up", "-d", "--no-deps", "--no-build", "viewer")
	s.Says(t, harness.CommitBound, "viewer", start, "committed")
	s.Must(t, "--profile", "watch", "rm", "--stop", "--force", "viewer")
	for _, program := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("HENCE_REQUIRE_CONTAINERS") == "1" {
				t.Fatal(program + " is missing: apt-get install prometheus")
			}
			t.Skip(program + " is missing: apt-get install prometheus")
		}
	}
	check := exec.Command("promtool", "check", "config", "../../compose/prometheus.yml")
	if out, err := check.CombinedOutput(); err != nil {
		t.Fatalf("promtool: %v: %s", err, out)
	}
	p := s.prometheus(t)
	harness.EachSecond(t, time.Minute, func() error { return p.scraped(4) })
	answered := 0
	for _, q := range dashboard(t) {
		rows, err := p.query(q.Expr)
		if err != nil {
			t.Errorf("%s: %s: %v", q.panel, q.Expr, err)
		}
		if rows > 0 {
			answered++
		} else {
			t.Logf("%s: %s: no rows: nothing of it happened", q.panel, q.Expr)
		}
	}
	if answered < 10 {
		t.Errorf("only %d queries of the dashboard have rows", answered)
	}
	p.knows(t)
	t.Logf("%d queries of the dashboard have rows", answered)
}

// prometheus is a running one.
type prometheus struct{ url string }

func (s *stack) prometheus(t *testing.T) *prometheus {
	t.Helper()
	config := readText(t, "../../compose/prometheus.yml")
	by := s.All(t)
	for _, pod := range []string{"pod-1", "pod-2", "pod-3"} {
		config = strings.ReplaceAll(config, pod+":", by[pod].Address(t)+":")
	}
	named := regexp.MustCompile(`(?s)dns_sd_configs:.*7421[^}]*\}`)
	if !named.MatchString(config) {
		t.Fatal("prometheus.yml does not find the processors by name any more: fix it or this test")
	}
	config = named.ReplaceAllString(config, `static_configs: [{targets: ["`+by["streams"].Address(t)+`:7421"]}]`)
	config = strings.ReplaceAll(config, "5s", "1s")
	dir := t.TempDir()
	alerts := readText(t, "../../compose/alerts.yml")
	for name, text := range map[string]string{"prometheus.yml": config, "alerts.yml": alerts} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ports, err := harness.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprint("127.0.0.1:", ports[0])
	harness.Spawn(t, "prometheus", nil, "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	return &prometheus{"http://" + address}
}

// get asks its interface and reads what is under "data".
func (p *prometheus) get(path string, query url.Values, data any) error {
	client := http.Client{Timeout: 10 * time.Second}
	resp, err := client.Get(p.url + path + "?" + query.Encode())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return err
	}
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("%s: %.200s", resp.Status, text)
	}
	if answer.Status != "success" {
		return errors.New(answer.Error)
	}
	return nil
}

// scraped says what is missing until all targets were scraped and rates over two scrapes can be made.
func (p *prometheus) scraped(targets int) error {
	var found struct {
		ActiveTargets []struct{ Health, LastError, ScrapeURL string }
	}
	if err := p.get("/api/v1/targets", nil, &found); err != nil {
		return err
	}
	if len(found.ActiveTargets) != targets {
		return fmt.Errorf("it has %d targets, want %d", len(found.ActiveTargets), targets)
	}
	for _, target := range found.ActiveTargets {
		if target.Health != "up" {
			return fmt.Errorf("%s is %s: %s", target.ScrapeURL, target.Health, target.LastError)
		}
	}
	rows, err := p.query(`sum(rate(hence_sidecar_decisions_total{state="committed"}[1m])) > 0`)
	if err == nil && rows == 0 {
		err = errors.New("no commit was counted yet")
	}
	return err
}

// query counts the rows of an answer.
func (p *prometheus) query(q string) (rows int, err error) {
	var found struct{ Result []json.RawMessage }
	err = p.get("/api/v1/query", url.Values{"query": {q}}, &found)
	return len(found.Result), err
}

// knows compares the metrics that the dashboard and the alerts name with those that were scraped; a counter that has
// not counted yet is looked up in the list of all.
func (p *prometheus) knows(t *testing.T) {
	t.Helper()
	var known map[string]json.RawMessage
	if err := p.get("/api/v1/metadata", nil, &known); err != nil {
		t.Fatal(err)
	}
	listed, _ := os.ReadFile("../../docs/metrics.md") // without it, what was scraped must do
	text := readText(t, "../../compose/alerts.yml") + readText(t, "../../compose/grafana/dashboards/hence.json")
	names := regexp.MustCompile(`\bhence_[a-z_]+[a-z]`).FindAllString(text, -1)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		if known[base] == nil && known[name] == nil && !strings.Contains(string(listed), base) {
			t.Errorf("the dashboard or the alerts name %s, which no process serves", name)
		}
	}
}

// shown is a query of the dashboard, and how its rows are named.
type shown struct{ panel, Expr, LegendFormat string }

// dashboard are the queries of all panels. It also holds what Grafana needs to find the file and to draw it.
func dashboard(t *testing.T) (queries []shown) {
	t.Helper()
	var board struct {
		UID, Title    string
		SchemaVersion int
		Panels        []struct {
			ID                int
			Type, Title       string
			Datasource        struct{ Type, UID string }
			GridPos           struct{ X, Y, W, H int }
			Targets           []shown
			Description, Unit string
		}
	}
	if err := json.Unmarshal([]byte(readText(t, "../../compose/grafana/dashboards/hence.json")), &board); err != nil {
		t.Fatal(err)
	}
	source := readText(t, "../../compose/grafana/provisioning/datasources/prometheus.yaml")
	if board.UID == "" || board.Title == "" || board.SchemaVersion < 30 || len(board.Panels) < 8 {
		t.Errorf("the dashboard is not whole: %+v", board)
	}
	ids := map[int]bool{}
	for _, p := range board.Panels {
		if ids[p.ID] || p.Type == "" || p.Description == "" || p.GridPos.W == 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("the panel %q cannot be drawn: %+v", p.Title, p)
		}
		if !strings.Contains(source, "uid: "+p.Datasource.UID) {
			t.Errorf("the panel %q asks %q, which is not provisioned", p.Title, p.Datasource.UID)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			target.panel = p.Title
			queries = append(queries, target)
		}
	}
	return queries
}

// metricLabels are the metrics that docs/metrics.md lists, each with its labels and those that a scrape adds. A test
// of the sidecar holds that list against what is served.
func metricLabels(t *testing.T) map[string][]string {
	t.Helper()
	listed := map[string][]string{"up": {"instance", "job"}}
	row := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\w+) \\|([^|]*)\\|")
	for _, m := range row.FindAllStringSubmatch(readText(t, "../../docs/metrics.md"), -1) {
		labels := append(strings.Fields(strings.ReplaceAll(m[3], "`", "")), "instance", "job")
		listed[m[1]] = labels
		if m[2] == "histogram" {
			listed[m[1]+"_bucket"] = append(labels, "le")
		}
	}
	return listed
}

// misnamed says which metrics and labels of a query no process serves.
func misnamed(listed map[string][]string, q, legend string) (wrong []string) {
	var labels, used []string
	for _, name := range regexp.MustCompile(`\b(hence_\w+|up\b)`).FindAllString(q, -1) {
		if listed[name] == nil {
			wrong = append(wrong, name)
		}
		labels = append(labels, listed[name]...)
	}
	for _, m := range regexp.MustCompile(`\b(?:by|without) \(([^)]*)\)`).FindAllStringSubmatch(q, -1) {
		used = append(used, strings.FieldsFunc(m[1], func(c rune) bool { return c == ',' || c == ' ' })...)
	}
	for _, m := range regexp.MustCompile(`[{,] *(\w+) *(?:=|!)|\{\{(\w+)\}\}`).FindAllStringSubmatch(q+legend, -1) {
		used = append(used, m[1]+m[2])
	}
	for _, label := range used {
		if !slices.Contains(labels, label) {
			wrong = append(wrong, "label "+label)
		}
	}
	return wrong
}

// Every query of the dashboard and of the alerts asks for metrics and labels that docs/metrics.md lists, and
// docs/operating.md tells of the metrics that the alerts ask for, and of no other.
func TestWatchedMetricsExist(t *testing.T) {
	listed := metricLabels(t)
	if len(listed) < 40 || misnamed(listed, "sum by (status) (hence_sidecar_requests_total)", "{{status}}") == nil {
		t.Fatalf("the list of docs/metrics.md is not read: %v", listed)
	}
	for _, q := range dashboard(t) {
		if wrong := misnamed(listed, q.Expr, q.LegendFormat); wrong != nil {
			t.Errorf("the panel %q asks %s, named %q: no process serves %v", q.panel, q.Expr, q.LegendFormat, wrong)
		}
	}
	alerts := readText(t, "../../compose/alerts.yml")
	for _, rule := range strings.Split(alerts, "- alert:")[1:] {
		_, expr, _ := strings.Cut(rule, "expr:")
		expr, _, _ = strings.Cut(expr, "annotations:")
		if wrong := misnamed(listed, expr, ""); wrong != nil {
			t.Errorf("the alert %s: no process serves %v", strings.Fields(rule)[0], wrong)
		}
	}
	_, table, _ := strings.Cut(readText(t, "../../docs/operating.md"), "\n## What to alert on\n")
	table, _, _ = strings.Cut(table, "\n## ")
	name := regexp.MustCompile(`\b(hence_[a-z_]+[a-z]|up\b)`)
	named := func(text string) []string {
		all := name.FindAllString(strings.ReplaceAll(text, "_bucket", ""), -1)
		slices.Sort(all)
		return slices.Compact(all)
	}
	if ruled, told := named(alerts), named(table); !slices.Equal(ruled, told) {
		t.Errorf("compose/alerts.yml asks for\n%v\nand docs/operating.md tells of\n%v", ruled, told)
	}
}

// TestAlerts gives the rules series as they come in life: faults raise an alert, and what is usual does not.
func TestAlerts(t *testing.T) {
	harness.NeedProgram(t, "promtool", harness.HowToGet("promtool"))
	rules, err := filepath.Abs("../../compose/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "alerts_test.yml")
	text := strings.ReplaceAll(readText(t, "testdata/alerts_test.yml"), "alerts.yml", rules)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("promtool", "test", "rules", path).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v: %s", err, out)
	}
}
