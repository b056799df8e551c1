package runtimes_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hence-dev/hence/cmd/hence/internal/runtimes"
	"github.com/hence-dev/hence/topology/trace"
)

// TestSideBySide holds that agents can share a runtime from goroutines of their own: each adds to one counter until it
// is let, and no addition is lost.
func TestSideBySide(t *testing.T) {
	const agents, additions = 4, 25
	for _, k := range []runtimes.Kind{runtimes.PessimisticDrop, runtimes.Serializable, runtimes.Cascade} {
		r := runtimes.New(k)
		var all sync.WaitGroup
		for agent := range agents {
			all.Go(func() {
				for done := 0; done < additions; {
					o := r.Begin(runtimes.Begin{Agent: fmt.Sprintf("agent%d", agent), Reads: []string{"counter"}})
					n, _ := strconv.Atoi(strings.Trim(string(o.Values()["counter"]), `"`)) // 0 where nothing is there
					o.Write("counter", trace.Text(strconv.Itoa(n+1)))
					if o.Commit() == runtimes.Committed {
						done++
					}
				}
			})
		}
		all.Wait()
		if got := r.Value("counter"); got != trace.Text(strconv.Itoa(agents*additions)) {
			t.Errorf("%s: the counter is %s", k, got)
		}
		if report := runtimes.Judge(r.Records()); report.Certain() > 0 {
			t.Errorf("%s: %d findings", k, report.Certain())
		}
	}
}

// TestRefusedSteps holds that steps of an operation that is over do nothing.
func TestRefusedSteps(t *testing.T) {
	r := runtimes.New(runtimes.Vanilla)
	o := r.Begin(runtimes.Begin{Agent: "a"})
	o.GiveUp()
	o.Write("c", trace.Text("v"))
	o.Claim("c", trace.Text("v"))
	o.Retract()
	o.GiveUp()
	if o.Commit() != runtimes.Refused || r.Value("c") != trace.Null || len(r.Cells()) > 0 {
		t.Errorf("c is %s", r.Value("c"))
	}
	if want := (runtimes.Counts{Operations: 1, GivenUp: 1}); r.Counts() != want {
		t.Errorf("%+v", r.Counts())
	}
	_, why := o.State()
	rec := r.Records()[0]
	if why != "its agent gave it up" || rec.TookEffect() || rec.WriteTime != 0 || len(rec.WriteSet)+len(rec.ReadSet) > 0 {
		t.Errorf("%q, %+v", why, rec)
	}
}
