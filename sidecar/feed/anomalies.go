package feed

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/topology"
)

// FollowAnomalies gives what is found in a workspace from a place of hence.anomalies on, -1: from now on, until ctx
// ends or each errs: that of streams.Client.
type FollowAnomalies func(ctx context.Context, workspace string, from int64,
	each func(at int64, a *topology.Anomaly, record []byte) error) error

// AnomalyParameters are the query parameters that a stream of anomalies takes.
const AnomalyParameters = "after kind"

// found is an anomaly on its way to a reader. Its id is one more than its offset in the topic: 0 is before all.
type found struct {
	id     sequencer.Seq
	kind   string
	record []byte
}

// remembered is how many ids a stream knows again: two replicas publish each finding.
const remembered = 1024

// ServeAnomalies answers one request with what is found in a workspace:
//
//	id: 7                           its place in hence.anomalies, 1-based, with gaps
//	event: A1                       the kind
//	data: {"specversion":"1.0",...} the CloudEvent of hence.anomalies
//
// A stream that begins after an id has every finding after it, in the order of the topic, and one without begins with
// what is found next. Copies of the last 1,024 findings are left out; an older one may come again, under the same id
// of its CloudEvent.
func (h *Handler) ServeAnomalies(w http.ResponseWriter, r *http.Request, workspace string) {
	if err := h.serveAnomalies(w, r, workspace); err != nil {
		Refuse(w, err)
	}
}

func (h *Handler) serveAnomalies(w http.ResponseWriter, r *http.Request, workspace string) error {
	after, kind, err := readAnomalies(r)
	if err != nil {
		return refusal(http.StatusBadRequest, "bad_request", "%v", err)
	}
	done, err := h.slot("read hence.anomalies")
	if err != nil {
		w.Header().Set("Retry-After", "5")
		return err
	}
	defer done()
	s := &stream{Handler: h, w: w, control: http.NewResponseController(w), queue: make(chan queued, h.config.Queue),
		told: sequencer.Seq(max(after, 0)), ofAnomalies: true}
	s.passed.Store(uint64(s.told))
	if r.Method == http.MethodHead {
		s.begin()
		return nil
	}
	return s.runWith(r.Context(), func(ctx context.Context) error {
		err := h.config.Anomalies(ctx, workspace, after, s.takeFound(ctx, kind)) // the id is the next one's place
		if errors.Is(err, streams.ErrAnomaliesOff) {
			return api.AnomaliesOff()
		}
		return err
	})
}

// takeFound queues findings of a kind, empty: of all.
func (s *stream) takeFound(ctx context.Context, kind string) func(int64, *topology.Anomaly, []byte) error {
	known, ids := map[string]bool{}, []string(nil)
	return func(at int64, a *topology.Anomaly, record []byte) error {
		id := a.ID()
		if !known[id] && (kind == "" || kind == a.Kind) {
			select {
			case s.queue <- queued{found: &found{sequencer.Seq(at + 1), a.Kind, record}}:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if !known[id] {
			known[id], ids = true, append(ids, id)
		}
		if len(ids) > remembered {
			delete(known, ids[0])
			ids = ids[1:]
		}
		s.passed.Store(uint64(at + 1))
		return nil
	}
}

// readAnomalies is what a request asks for; after is -1 where it names no place.
func readAnomalies(r *http.Request) (after int64, kind string, err error) {
	q, err := api.Query(r.URL.RawQuery)
	if err != nil {
		return 0, "", err
	}
	for name, values := range q {
		if !strings.Contains(" "+AnomalyParameters+" ", " "+name+" ") {
			return 0, "", fmt.Errorf("query parameter %.40q is not known here; known are: %s", name, AnomalyParameters)
		}
		if len(values) > 1 {
			return 0, "", fmt.Errorf("query parameter %q is given twice", name)
		}
	}
	for _, text := range []string{r.Header.Get("Last-Event-ID"), q.Get("after")} {
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 63)
		if err != nil || n < 0 {
			return 0, "", fmt.Errorf("%.40q is no id: give that of the last event that you have, or 0", text)
		}
		return n, q.Get("kind"), nil
	}
	return -1, q.Get("kind"), nil
}
