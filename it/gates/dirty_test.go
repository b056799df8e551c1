package gates

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/it/harness"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/sidecar/client"
)

// TestDirtyValues lets one agent read what another has written and then takes back, in all pairs of order modes: who
// has read the value that was compensated away is refused, and who was made to wait reads the one that was restored.
func TestDirtyValues(t *testing.T) {
	rounds := harness.Number(t, "HENCE_IT_DIRTY", harness.OnReal(5, harness.Sample(3)))
	d, shop, e := harness.Deploy(t, harness.Start(t)), harness.OpenShop(t), harness.NewErrands()
	sidecars := shop.Sidecars(t, d, 2)
	dirty, waited := 0, 0
	for _, writes := range harness.Orders() {
		for _, reads := range harness.Orders() {
			for n := range rounds {
				path := fmt.Sprintf("dirty/%s-%s-%d", writes, reads, n)
				value, end := compensatedAway(t, e, sidecars, path, writes, reads)
				switch {
				case value == "dirty" && end.State == api.StateAborted:
					dirty++
				case value == "clean" && end.State == api.StateCommitted:
					waited++
				default:
					t.Errorf("%s: the reader of %q is %s %s %s", path, value, end.State, end.Code, end.Detail)
				}
				if got := shop.File(t, path); got != "clean" {
					t.Errorf("%s holds %q after the compensation", path, got)
				}
			}
		}
	}
	t.Logf("%d readers saw the value that was compensated away, all of them were refused; %d waited for the other one",
		dirty, waited)
	if dirty == 0 || waited == 0 {
		t.Error("want some of each")
	}
}

// compensatedAway returns what the reader read and how it ended.
func compensatedAway(t *testing.T, e *harness.Errands, s []*harness.Sidecar, path, writes, reads string,
) (value string, end client.Decision) {
	t.Helper()
	ctx := t.Context()
	files := inFiles{e}
	before := begun(t, s[0], "")
	if err := files.write(ctx, before, path, "clean"); err != nil {
		t.Fatal(err)
	}
	if err := e.Sealed(ctx, before, ""); err != nil {
		t.Fatal(err)
	}
	writer, reader := begun(t, s[0], writes), begun(t, s[1], reads)
	if err := files.write(ctx, writer, path, "dirty"); err != nil {
		t.Fatal(err)
	}
	type answer struct {
		value string
		err   error
	}
	got := make(chan answer, 1)
	go func() {
		v, err := files.read(ctx, reader, path)
		got <- answer{v, err}
	}()
	var a answer
	harness.Eventually(t, harness.FinalIn, func() error {
		select {
		case a = <-got:
			return nil
		default:
		}
		now, err := reader.Status(ctx, 0)
		if err == nil && len(now.BlockedBy) == 0 {
			err = fmt.Errorf("%s neither has its answer nor waits", reader.ID())
		}
		return err
	})
	if err := writer.Abort(ctx, "changed its mind"); err != nil && harness.ProblemCode(err) == "" {
		t.Fatal(err) // an older reader in locked mode has aborted it already
	}
	if a.value == "" && a.err == nil {
		a = <-got
	}
	if a.err != nil {
		t.Fatal(a.err)
	}
	if _, err := reader.Seal(ctx); err != nil {
		t.Fatal(err)
	}
	if end, err := e.Over(ctx, writer); err != nil || end.State != api.StateAborted {
		t.Fatalf("the writer: %+v, %v", end, err)
	}
	end, err := e.Over(ctx, reader)
	if err != nil {
		t.Fatal(err)
	}
	return a.value, end
}

func begun(t *testing.T, s *harness.Sidecar, mode string) *client.Tx {
	t.Helper()
	tx, err := s.Client.Begin(t.Context(), client.BeginOptions{Mode: mode})
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

// gateway stands before the ledger and keeps compensations waiting.
type gateway struct {
	entered chan struct{} // one for each compensation that waits
	open    chan struct{} // one lets one through
}

func newGateway(t *testing.T, shop *harness.Shop) *gateway {
	t.Helper()
	g := &gateway{entered: make(chan struct{}), open: make(chan struct{})}
	target, err := url.Parse(shop.Ledger.URL())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	pass := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/remove") {
			select {
			case g.entered <- struct{}{}:
			case <-r.Context().Done():
				return
			}
			select {
			case <-g.open:
			case <-r.Context().Done():
				return
			}
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	shop.Address = strings.TrimPrefix(server.URL, "http://")
	return g
}

// TestPendingCompensation lets an agent ask for a row whose compensation is under way: it waits until that is through,
// in all pairs of order modes.
func TestPendingCompensation(t *testing.T) {
	rounds := harness.Number(t, "HENCE_IT_DIRTY", harness.OnReal(5, harness.Sample(3)))
	d, shop, e := harness.Deploy(t, harness.Start(t)), harness.OpenShop(t), harness.NewErrands()
	g := newGateway(t, shop)
	sidecars := shop.Sidecars(t, d, 2)
	for _, first := range harness.Orders() {
		for _, second := range harness.Orders() {
			for n := range rounds {
				pending(t, e, g, sidecars, shop, fmt.Sprintf("%s-%s-%d", first, second, n), first, second)
			}
		}
	}
	t.Logf("%d compensations were pending while another agent asked for their row: none was overtaken", 9*rounds)
}

func pending(t *testing.T, e *harness.Errands, g *gateway, s []*harness.Sidecar, shop *harness.Shop,
	row, first, second string) {
	t.Helper()
	ctx := t.Context()
	about := harness.Task{Task: row}
	loser, next := begun(t, s[0], first), begun(t, s[1], second)
	if _, err := e.Call(ctx, loser, "row.add", about); err != nil {
		t.Fatal(err)
	}
	if err := loser.Abort(ctx, "changed its mind"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-g.entered:
	case <-time.After(harness.FinalIn):
		t.Fatal("the compensation does not begin")
	}
	done := make(chan error, 1)
	go func() {
		_, err := e.Call(ctx, next, "row.add", about)
		done <- err
	}()
	harness.Eventually(t, harness.FinalIn, func() error {
		select {
		case err := <-done:
			t.Fatalf("%s: another transaction has the row while its compensation is under way: %v", row, err)
		default:
		}
		now, err := next.Status(ctx, 0)
		if err == nil && len(now.BlockedBy) == 0 {
			err = fmt.Errorf("%s does not wait", next.ID())
		}
		return err
	})
	if got, want := paths(t, shop, row), []string{"/add"}; !slices.Equal(got, want) {
		t.Errorf("%s: meanwhile the ledger has %v, want %v", row, got, want)
	}
	g.open <- struct{}{}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := e.Sealed(ctx, next, ""); err != nil {
		t.Fatal(err)
	}
	if got, want := paths(t, shop, row), []string{"/add", "/remove", "/add"}; !slices.Equal(got, want) {
		t.Errorf("%s: at the end the ledger has %v, want %v", row, got, want)
	}
}

// paths are what the ledger did with a row, in order.
func paths(t *testing.T, shop *harness.Shop, row string) (all []string) {
	t.Helper()
	for _, d := range shop.Did(t) {
		if d.Task == row {
			all = append(all, d.Path)
		}
	}
	return all
}
