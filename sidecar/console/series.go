package console

import (
	"math"
	"slices"
	"time"

	"github.com/hence-dev/hence/sequencer"
)

const (
	seriesSeconds = 300
	maxCodes      = 32 // reasons of one second
)

// Latencies are counted in classes, each 10 % wider than the one before: a quantile is right to 5 %, of any stretch of
// seconds, in a bounded space.
const (
	latencyClasses = 128 // up to 90 s
	latencyFirst   = 0.5 // ms; the first class has what is shorter
	latencyGrowth  = 1.1
)

type latencies [latencyClasses]uint32

func (l *latencies) add(ms float64) {
	class := 0
	if ms > latencyFirst {
		class = min(latencyClasses-1, 1+int(math.Log(ms/latencyFirst)/math.Log(latencyGrowth)))
	}
	l[class]++
}

// quantile is how long so many hundredths took at most, in ms; 0 where there are none.
func (l *latencies) quantile(hundredths int) float64 {
	all := 0
	for _, n := range l {
		all += int(n)
	}
	rank := all * hundredths / 100
	for class, n := range l {
		if rank -= int(n); rank < 0 {
			return latencyFirst * math.Pow(latencyGrowth, float64(class)-0.5)
		}
	}
	return 0
}

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

	latencies latencies
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
	s.now.latencies.add(ms)
}

func (x *second) close() { x.P50Ms, x.P99Ms = x.latencies.quantile(50), x.latencies.quantile(99) }

// over is how long the decisions of the last closed seconds took.
func (s *series) over(seconds int) (took tookView) {
	var all latencies
	for i := range s.done[max(0, len(s.done)-seconds):] {
		x := &s.done[max(0, len(s.done)-seconds)+i]
		took.Samples += x.Samples
		for class, n := range x.latencies {
			all[class] += n
		}
	}
	took.P50Ms, took.P99Ms = all.quantile(50), all.quantile(99)
	return took
}
