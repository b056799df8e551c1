package tables

import (
	"context"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
)

// unwatched is a ground of a store in memory, before which nothing looks at what models are asked.
type unwatched struct{ pretended }

func (u unwatched) Open(ctx context.Context, site Site) (place Place, err error) {
	s := inMemory(wholeStep)
	to, err := url.Parse(site.Models["openai"])
	if err != nil {
		return place, err
	}
	on := httputil.NewSingleHostReverseProxy(to)
	at, err := serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get(turnHeader) != "":
			on.ServeHTTP(w, r)
		case r.URL.Path == "/admin/delivery-log": // the store has none to show
			_, _ = w.Write([]byte(`{"agents": {}}`))
		default:
			s.ServeHTTP(w, r)
		}
	}))
	place.Buses = []string{at}
	return place, err
}

// TestModelRowsFall holds that the rows about a proxy are not reproduced where there is none. Those of timings are not
// among them.
func TestModelRowsFall(t *testing.T) {
	const timed = "S04 S52"
	for id, run := range modelRuns() {
		if strings.Contains(timed, id) {
			continue
		}
		row := Row{ID: id, run: run}
		if !falls(t.Context(), row, &Env{Seed: 1, Subject: Ours(), Ground: unwatched{}}) {
			t.Errorf("%s: it is reproduced without a proxy", id)
		}
	}
}
