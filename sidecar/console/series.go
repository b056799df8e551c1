package console

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hence-dev/hence/sequencer"
)

const (
	seriesSeconds = 300
	maxSamples    = 1024 // latencies of one second; beyond that, a fair choice of them
	maxCodes      = 32   // reasons of one second
)

// second is what happened in one second of the console's clock.
type second struct {
	At        int64                  `json:"at"` // unix seconds
	Decisions int                    `json:"decisions"`
	Commits   int                    `json:"commits"`
	Aborts    map[sequencer.Code]int `json:"aborts,omitempty"`  // transactions, by reason
	Refused   map[sequencer.Code]int `json:"refused,omitempty"` // intents only
	P50Ms     float64                `json:"p50_ms"`            // from the sidecar's seal until it was seen here
	P99Ms     float64                `json:"p99_ms"`
	Samples   int                    `json:"samples"`

	latencies []float64
}

// series are the last five minutes, second by second.
type series struct {
	done []second // oldest first
	now  second
}

// at turns the series to a time: seconds that are over are closed, empty ones are kept for as long as they are shown.
func (s *series) at(t time.Time) {
	unix := t.Unix()
	if s.now.At == 0 || unix-s.now.At > seriesSeconds {
		s.done, s.now = nil, second{At: unix}
		return
	}
	for s.now.At < unix {
		s.now.close()
		s.done = append(s.done, s.now)
		if len(s.done) > seriesSeconds {
			s.done = slices.Delete(s.done, 0, len(s.done)-seriesSeconds)
		}
		s.now = second{At: s.now.At + 1}
	}
}

// since are the closed seconds after one.
func (s *series) since(unix int64) []second {
	i := slices.IndexFunc(s.done, func(x second) bool { return x.At > unix })
	if i < 0 {
		return nil
	}
	return slices.Clone(s.done[i:])
}

func (s *series) decided(o *sequencer.Outcome) {
	s.now.Decisions++
	switch o.Kind {
	case sequencer.OutcomeCommitted:
		s.now.Commits++
	case sequencer.OutcomeAborted:
		s.now.Aborts = count(s.now.Aborts, o.Code)
	case sequencer.OutcomeRefused:
		s.now.Refused = count(s.now.Refused, o.Code)
	}
}

func count(m map[sequencer.Code]int, code sequencer.Code) map[sequencer.Code]int {
	if m == nil {
		m = map[sequencer.Code]int{}
	}
	if _, known := m[code]; !known && len(m) >= maxCodes {
		code = "other"
	}
	m[code]++
	return m
}

// latency notes how long a decision took, in milliseconds.
func (s *series) latency(ms float64) {
	s.now.Samples++
	if len(s.now.latencies) < maxSamples {
		s.now.latencies = append(s.now.latencies, ms)
	} else if i := rand.IntN(s.now.Samples); i < maxSamples {
		s.now.latencies[i] = ms
	}
}

func (x *second) close() {
	slices.Sort(x.latencies)
	if n := len(x.latencies); n > 0 {
		x.P50Ms, x.P99Ms = x.latencies[n/2], x.latencies[min(n-1, n*99/100)]
	}
	x.latencies = nil
}
