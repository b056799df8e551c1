package adapters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"time"

	"github.com/hence-dev/hence/gate"
)

const (
	foreignMax  = time.Second // the tools' maximum time
	foreignLife = time.Hour   // how long the sink that forgets knows a key
)

// foreignKind is in what a sink is not ours.
type foreignKind uint8

const (
	credentialsFirst foreignKind = iota // 401 and 403 before it looks at keys
	ignoresHeaders                      // knows keys, but not Hence-Compensates, and marks no answer as kept
	forgetsKeys                         // after foreignLife
	errorsAs200                         // whatever is wrong is in the body
	rateLimits                          // 429 and 403 before it looks at keys
	failsOver                           // to a standby, which has what was committed and takes no writes
	foreignKinds
)

func (k foreignKind) String() string {
	return [...]string{"credentials first", "ignores headers", "forgets keys", "errors as 200", "rate limits",
		"fails over"}[k]
}

// foreignFault is what one request meets.
type foreignFault uint8

const (
	meetsNothing   foreignFault = iota
	meetsNoPort                 // no connection
	losesRequest                // no answer, and it never arrives
	losesAnswer                 // it is done, without an answer
	comesLate                   // no answer; it is done later, within the maximum time
	fails5xxAfter               // it is done, and answered 504
	fails5xxBefore              // 503 and not done
	declined                    // the sink itself says no, and keeps that under the key
	turnedAway                  // what stands before the keys says no, to this and some of the next requests
	foreignFaults
)

// foreign is one check: a sink, its clock, a journal, and a process that can die at any operation.
type foreign struct {
	kind   foreignKind
	now    time.Time
	marks  []gate.Mark
	faults []foreignFault // of the requests to come; none left: meetsNothing
	closed int            // requests that are turned away after one that was
	shut   int            // of these, still to come
	ops    int
	dieAt  int // the process dies at this operation; zero: never

	kept        map[string]keptAnswer // by key
	compensated map[string]bool       // keys
	did, undid  map[string]int        // by what is named in the path
	late        []lateRequest
	trace       []string
}

type keptAnswer struct {
	status int
	body   string
	at     time.Time
}

type lateRequest struct {
	due time.Time
	req *http.Request
}

// foreignCrash is what a process that dies panics with.
type foreignCrash struct{}

func newForeign(kind foreignKind) *foreign {
	return &foreign{kind: kind, now: time.Unix(1_000_000, 0), kept: map[string]keptAnswer{},
		compensated: map[string]bool{}, did: map[string]int{}, undid: map[string]int{}}
}

func (w *foreign) Now() time.Time      { return w.now }
func (w *foreign) Left() time.Duration { return time.Hour }

func (w *foreign) Sleep(_ context.Context, d time.Duration) error {
	w.pass(d)
	return nil
}

func (w *foreign) Within(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
	return ctx, func() {}
}

// pass lets time go by; what is late arrives.
func (w *foreign) pass(d time.Duration) {
	until := w.now.Add(d)
	for len(w.late) > 0 && !w.late[0].due.After(until) { // in the order in which they left, all take as long
		l := w.late[0]
		w.now, w.late = l.due, w.late[1:]
		w.serve(l.req, meetsNothing)
	}
	w.now = until
}

// say keeps what happened for the report of a check that fails.
func (w *foreign) say(format string, args ...any) {
	at := w.now.Sub(time.Unix(1_000_000, 0)).String()
	w.trace = append(w.trace, at+" "+fmt.Sprintf(format, args...))
}

func (w *foreign) op() {
	if w.ops++; w.ops == w.dieAt {
		w.say("the process dies")
		panic(foreignCrash{})
	}
}

func (w *foreign) Mark(m gate.Mark) error {
	w.op()
	w.say("mark %s of %d, try %d, answer %+v", m.Step, m.Index, m.Try, m.Answer)
	w.marks = append(w.marks, m)
	w.op()
	return nil
}

var errNoAnswer = errors.New("no answer in time")

// RoundTrip is the network before the sink.
func (w *foreign) RoundTrip(req *http.Request) (*http.Response, error) {
	w.op()
	fault := meetsNothing
	if len(w.faults) > 0 {
		fault, w.faults = w.faults[0], w.faults[1:]
	}
	w.say("%s %s under %q meets fault %d", req.Method, req.URL.Path, req.Header.Get(HeaderKey), fault)
	if fault == meetsNoPort {
		return nil, errors.New("connection refused")
	}
	if trace := httptrace.ContextClientTrace(req.Context()); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	var status int
	var header http.Header
	var body string
	switch fault {
	case losesRequest:
		w.pass(foreignMax)
		return nil, errNoAnswer
	case comesLate:
		w.late = append(w.late, lateRequest{w.now.Add(foreignMax - 1), req})
		return nil, errNoAnswer
	case fails5xxBefore:
		status, body = w.status(http.StatusServiceUnavailable), w.bodyOf("internal")
	default:
		status, header, body = w.serve(req, fault)
	}
	w.op()
	switch fault {
	case losesAnswer:
		w.pass(foreignMax)
		return nil, errNoAnswer
	case fails5xxAfter:
		status, header, body = w.status(http.StatusGatewayTimeout), nil, w.bodyOf("internal")
	}
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: req,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}, nil
}

// serve is the sink: /keys/KEY looks up, /cancel/NAME undoes what NAME did, anything else does NAME.
func (w *foreign) serve(req *http.Request, fault foreignFault) (int, http.Header, string) {
	if fault == turnedAway {
		w.shut = 1 + w.closed
	}
	look := req.Method == http.MethodGet
	if w.shut > 0 {
		w.shut--
		if !look || w.kind != failsOver {
			return w.door()
		}
	}
	if w.kind == forgetsKeys {
		for key, k := range w.kept {
			if w.now.Sub(k.at) > foreignLife {
				delete(w.kept, key)
			}
		}
	}
	_, name, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
	if look {
		k, ok := w.kept[name]
		return w.found(ok && k.status < 300, k.status, k.body)
	}
	key, undone := req.Header.Get(HeaderKey), req.Header.Get(HeaderCompensates)
	if w.kind == ignoresHeaders {
		undone = ""
	}
	if key != "" && w.compensated[key] {
		return w.keptAs(http.StatusGone, w.bodyOf("compensated"))
	}
	if k, ok := w.kept[key]; ok && key != "" {
		return w.keptAs(k.status, k.body)
	}
	status, body := w.act(req, name, undone, fault)
	if key != "" {
		w.kept[key] = keptAnswer{status, body, w.now}
	}
	return status, nil, body
}

// act does what a request asks for.
func (w *foreign) act(req *http.Request, name, undone string, fault foreignFault) (int, string) {
	if fault == declined {
		return w.status(http.StatusUnprocessableEntity), w.bodyOf("declined")
	}
	if undone != "" {
		w.compensated[undone] = true
	}
	switch undo := strings.HasPrefix(req.URL.Path, "/cancel/"); {
	case undo && undone == "": // it does what it is asked for, also for what never came
		w.undid[name]++
	case undo && w.did[name] == w.undid[name]: // it never came, and is refused from now on
	case undo:
		w.undid[name]++
	default:
		w.did[name]++
	}
	return http.StatusOK, `{"ok":true}`
}

// door is what stands before the keys.
func (w *foreign) door() (int, http.Header, string) {
	status := map[foreignKind][]int{credentialsFirst: {401, 403}, rateLimits: {429, 403}, failsOver: {403, 405, 503},
		errorsAs200: {200}}[w.kind]
	if status == nil {
		status = []int{401}
	}
	return status[w.ops%len(status)], nil, w.bodyOf("not now")
}

// status and bodyOf are how the sink says no.
func (w *foreign) status(status int) int {
	if w.kind == errorsAs200 {
		return http.StatusOK
	}
	return status
}

func (w *foreign) bodyOf(what string) string { return fmt.Sprintf(`{"ok":false,"error":%q}`, what) }

// keptAs is an answer that the sink keeps under the key.
func (w *foreign) keptAs(status int, body string) (int, http.Header, string) {
	header := http.Header{}
	if w.kind != ignoresHeaders {
		header.Set(HeaderReplayed, "true")
	}
	return w.status(status), header, body
}

// found answers a look-up.
func (w *foreign) found(found bool, status int, body string) (int, http.Header, string) {
	if !found {
		return w.status(http.StatusNotFound), nil, w.bodyOf("no such key")
	}
	return status, nil, body
}

// journal is what the marks say of effects; a stranger's log has the answers only.
func (w *foreign) journal(effects []gate.Progress, claim gate.Claim) []gate.Progress {
	out := make([]gate.Progress, len(effects))
	for i := range effects {
		out[i] = gate.Progress{Effect: effects[i].Effect, Committed: effects[i].Committed}
		for _, m := range w.marks {
			if m.Index != out[i].Index || claim == gate.ClaimStranger && m.Step != gate.StepAnswered {
				continue
			}
			out[i].Apply(m)
		}
	}
	return out
}

// lives runs f and reports whether the process lived.
func (w *foreign) lives(f func()) (lived bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(foreignCrash); !ok {
				panic(r)
			}
		}
		w.dieAt = 0
	}()
	f()
	return true
}

// name is what an effect's path names.
func nameOf(p *gate.Progress) string {
	var args struct{ ID string }
	if err := json.Unmarshal(p.Args, &args); err != nil {
		panic(err)
	}
	return args.ID
}
