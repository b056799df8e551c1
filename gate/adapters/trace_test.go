package adapters

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/hence-dev/hence/gate"
)

// The trace of a call goes to the sink: as a header over HTTP, of the look-up too, and as a variable of a program.
// Without a trace there is none.
func TestTraceparent(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	r := record(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) })
	web := build(t, gate.KindHTTP, r.env(""), gate.HTTPSpec{Method: "POST", URL: r.URL + "/x",
		LookUp: &gate.HTTPLookUp{Method: "GET", URL: r.URL + "/x", Absent: []int{404}}})
	program := build(t, gate.KindExec, gate.Env{}, gate.ExecSpec{
		Argv: []string{"sh", "-c", `printf '"%s"' "$TRACEPARENT"`}})
	for _, want := range []string{parent, ""} {
		c := call("k", `{}`)
		c.Traceparent = want
		must(t, web, c)
		if _, err := web.LookUp(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		requests, _ := r.seen()
		for _, req := range requests[len(requests)-2:] {
			if got := req.Header.Get("Traceparent"); got != want {
				t.Errorf("%s: the header is %q, want %q", req.Method, got, want)
			}
		}
		if got := must(t, program, c); string(got.Result) != `"`+want+`"` {
			t.Errorf("the program sees %s, want %q", got.Result, want)
		}
	}
}
