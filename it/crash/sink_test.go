package crash

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/adapters"
	"github.com/hence-dev/hence/gate/policy"
)

// The faults that a call asks its sink for. One with "once" comes over the first arrival of its call only.
const (
	faultNone     = "none"
	faultLoseOnce = "lose_once" // it happens, the connection breaks before the answer
	faultDropOnce = "drop_once" // it does not happen, the connection breaks
	faultLose     = "lose"
	faultRefuse   = "refuse" // the sink says that nothing happened
)

// crashTools declares the tools: eager and held ones, whose sinks take keys and take none, and one whose host is down.
const crashTools = `version: 1
server: crash
strict: true
defaults: {max_time_ms: 400, retry: {attempts: 4, backoff_ms: 10, backoff_most_ms: 40}}
hosts: ["SINK", "127.0.0.1:1"]
tools:
  - tool: reserve
    class: reversible
    keyed: true
    args: [agent, n, fault, undo]
    scopes: ["stock:/{agent}"]
    compensation: {tool: release, args: {agent: "{args.agent}", fault: "{args.undo}"}, forbids: true}
    http: {method: POST, url: "http://SINK/reserve", body: BODY, lookup: {url: "http://SINK/by-key/{$key}"}}
  - tool: release
    class: known_outcome
    undo_only: true
    keyed: true
    args: [agent, fault]
    scopes: ["stock:/{agent}"]
    http: {method: POST, url: "http://SINK/release", body: BODY}
  - tool: seat
    class: reversible
    args: [agent, n, fault, undo]
    scopes: ["seat:/{agent}"]
    compensation: {tool: unseat, args: {agent: "{args.agent}", n: "{args.n}", fault: "{args.undo}"}}
    http: {method: POST, url: "http://SINK/seat", body: BODY}
  - tool: unseat
    class: reversible
    undo_only: true
    args: [agent, n, fault]
    scopes: ["seat:/{agent}"]
    compensation: {tool: seat, args: {agent: "{args.agent}", n: "{args.n}", fault: none, undo: none}}
    http: {method: POST, url: "http://SINK/unseat", body: BODY}
  - tool: charge
    class: irreversible
    args: [agent, n, fault, undo, pad?]
    scopes: ["card:/{agent}"]
    key: "charge/{agent}/{n}"
    http: {method: POST, url: "http://SINK/charge", body: BODY, lookup: {url: "http://SINK/by-key/{$key}"}}
  - tool: note
    class: irreversible
    args: [agent, n, fault, undo, pad?]
    scopes: ["note:/{agent}"]
    http: {method: POST, url: "http://SINK/note", body: BODY}
  - tool: gone
    class: irreversible
    args: [agent, n, fault, undo]
    scopes: ["gone:/{agent}"]
    http: {method: POST, url: "http://127.0.0.1:1/gone", body: BODY}
  - tool: away
    class: reversible
    keyed: true
    args: [agent, n, fault, undo]
    scopes: ["away:/{agent}"]
    compensation: {tool: release, args: {agent: "{args.agent}", fault: "{args.undo}"}}
    http: {method: POST, url: "http://127.0.0.1:1/away", body: BODY}
`

// crashScopes are everything that the tools of one agent move.
func crashScopes(agent string) []string {
	var all []string
	for _, kind := range []string{"stock", "seat", "card", "note", "gone", "away"} {
		all = append(all, kind+":/"+agent)
	}
	return all
}

// spot names one effect of one transaction.
type spot struct {
	tx    string
	index int
}

// String returns the transaction and the index.
func (s spot) String() string { return fmt.Sprintf("%s/%d", s.tx, s.index) }

// sinkSpot is one effect at the sink: transactions of two logs may have one name, and the agent that their calls name
// tells them apart.
type sinkSpot struct {
	agent string
	spot
}

// deed is what the sink has of one effect.
type deed struct {
	tool     string
	key      string
	fault    string
	arrived  int // calls, counted before anything else
	done     int // how often it happened
	at       int // when it happened first, among all that did
	undoCame int
	undone   int
}

// crashSink is an HTTP service: what came with a key happens once, a key that was compensated is refused from then on,
// and what came without one happens each time.
type crashSink struct {
	server *httptest.Server

	mu     sync.Mutex
	clock  int
	deeds  map[sinkSpot]*deed
	byKey  map[string]bool
	barred map[string]bool // compensated
}

func openCrashSink(tb testing.TB) *crashSink {
	tb.Helper()
	s := &crashSink{deeds: map[sinkSpot]*deed{}, byKey: map[string]bool{}, barred: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /by-key/{key}", s.lookUp)
	mux.HandleFunc("POST /{tool}", s.call)
	s.server = httptest.NewServer(mux)
	tb.Cleanup(s.server.Close)
	return s
}

// policy is the policy file over this sink.
func (s *crashSink) policy() []byte {
	body := `{tx: "{$tx}", index: "{$index}", agent: "{agent}", fault: "{fault}"}`
	host := strings.TrimPrefix(s.server.URL, "http://")
	return []byte(strings.NewReplacer("SINK", host, "BODY", body).Replace(crashTools))
}

// tools is that policy, loaded for a sidecar of this process.
func (s *crashSink) tools(tb testing.TB) gate.Tools {
	tb.Helper()
	p, err := policy.Load(s.policy(), policy.Options{File: "crash.yaml", Build: adapters.Build})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func (s *crashSink) lookUp(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.byKey[r.PathValue("key")] {
		http.NotFound(w, r)
	}
}

func (s *crashSink) call(w http.ResponseWriter, r *http.Request) {
	var said struct {
		Tx    string `json:"tx"`
		Index int    `json:"index"`
		Agent string `json:"agent"`
		Fault string `json:"fault"`
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, 1<<16))
	if err == nil {
		err = json.Unmarshal(text, &said)
	}
	if err != nil { // cut off: its sender died
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	status := s.take(r, sinkSpot{said.Agent, spot{said.Tx, said.Index}}, said.Fault)
	if status == 0 {
		panic(http.ErrAbortHandler) // breaks the connection
	}
	w.WriteHeader(status)
}

// take does what a request asks for and returns its status; zero: the connection breaks.
func (s *crashSink) take(r *http.Request, at sinkSpot, fault string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.deeds[at]
	if d == nil {
		d = &deed{}
		s.deeds[at] = d
	}
	key, undoes := r.Header.Get("Idempotency-Key"), r.Header.Get("Hence-Compensates")
	tool := r.PathValue("tool")
	undo := tool == "release" || tool == "unseat"
	count := &d.arrived
	if undo {
		count = &d.undoCame
	} else {
		d.tool, d.key, d.fault = tool, key, fault
	}
	*count++
	first := *count == 1
	switch {
	case fault == faultRefuse:
		return http.StatusUnprocessableEntity
	case fault == faultDropOnce && first:
		return 0
	case key != "" && s.barred[key]:
		return http.StatusGone
	}
	if key == "" || !s.byKey[key] {
		s.do(d, undo, undoes)
	}
	s.byKey[key] = key != ""
	if fault == faultLose || fault == faultLoseOnce && first {
		return 0
	}
	return http.StatusOK
}

func (s *crashSink) do(d *deed, undo bool, undoes string) {
	s.clock++
	switch {
	case undo:
		d.undone++
		if undoes != "" {
			s.barred[undoes] = true
		}
	case d.done == 0:
		d.done, d.at = 1, s.clock
	default:
		d.done++
	}
}

// of is what the sink has of the calls that name one of some agents.
func (s *crashSink) of(agents ...string) map[spot]deed {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[spot]deed{}
	for at, d := range s.deeds {
		if slices.Contains(agents, at.agent) {
			all[at.spot] = *d
		}
	}
	return all
}
