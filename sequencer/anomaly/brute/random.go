package brute

import (
	"math/rand/v2"
	"slices"

	"github.com/hence-dev/hence/topology/trace"
)

// Random makes the history of a seed: up to 9 records of up to 4 agents over up to 3 cells. A seed decides how true
// its history is. Some come from a store in which operations begin and commit, some of them read of a replica that
// lags, some are taken back, and each field may be absent; others have fields that agree with nothing.
func Random(seed uint64) []trace.Record {
	g := random{Rand: rand.New(rand.NewPCG(seed, 17))}
	g.times = rand.New(rand.NewPCG(seed, 23))
	g.apart = of(g.times.IntN, 0, 0, 50)
	n := 1 + g.IntN(9)
	absent, wrong := of(g.IntN, 0, 0, 15, 40), of(g.IntN, 0, 0, 5, 30) // of 100
	h := make([]trace.Record, 0, n)
	cells := []string{"x", "y", "z"}[:1+g.IntN(3)]
	agents := []string{"a", "b", "c", "d"}[:1+g.IntN(4)]
	for i := range n {
		r := quiet(i+1, of(g.IntN, agents...))
		r.WriteTime = uint64(i + 1)
		if g.of100(wrong) {
			r.WriteTime = uint64(g.IntN(n + 1))
		}
		r.ReadTime = uint64(i - min(i, g.IntN(4)))
		if g.of100(wrong) {
			r.ReadTime = uint64(g.IntN(n + 1))
		}
		for _, c := range cells {
			g.touch(&r, h, c, absent, wrong)
		}
		g.taken(&r, absent)
		g.tools(&r, absent)
		g.effects(&r, absent)
		h = append(h, r)
	}
	for i := range h {
		if g.of100(absent) {
			h[i].Txn = ""
		}
	}
	if g.of100(30) {
		g.Shuffle(len(h), func(i, j int) { h[i], h[j] = h[j], h[i] })
	}
	return h
}

type random struct {
	*rand.Rand
	times *rand.Rand // of reads at a time of their own
	apart int        // of 100 reads, as many
}

func (g random) of100(n int) bool { return g.IntN(100) < n }

// touch lets a record read and write a cell, and rest on the one whose write it read.
func (g random) touch(r *trace.Record, h []trace.Record, c string, absent, wrong int) {
	values := []trace.Value{trace.Null, "1", "2"}
	if g.of100(50) {
		at := r.ReadTime
		if g.times.IntN(100) < g.apart {
			at = uint64(g.times.IntN(int(r.WriteTime) + 1))
			if r.ReadTimes == nil {
				r.ReadTimes = map[string]uint64{}
			}
			r.ReadTimes[c] = at
		}
		if g.of100(wrong) {
			at -= min(at, 1)
			r.Replica[c] = "q"
		}
		v := shown(h, c, at)
		if g.of100(wrong) {
			v = of(g.IntN, values...)
		}
		for k := range h {
			if writes(&h[k], c) && h[k].WriteValues[c] == v && !slices.Contains(r.Preds, h[k].Txn) && !g.of100(wrong) {
				r.Preds = append(r.Preds, h[k].Txn)
				if g.of100(50) { // the closure
					r.Preds = append(r.Preds, h[k].Preds...)
				}
			}
		}
		read(r, c, v)
		if r.Version == nil {
			r.Version = trace.PerCell[trace.Value]{}
		}
		r.Version[c] = of(g.IntN, trace.Value("1"), "2")
		if g.of100(absent) {
			delete(r.ReadValues, c)
		}
		if g.of100(absent) {
			delete(r.Replica, c)
		}
		if g.of100(absent) {
			delete(r.Version, c)
		}
	}
	if g.of100(40) {
		v := r.WriteTime // a value of its own
		write(r, c, of(g.IntN, append(values, trace.Value("1"+string(rune('0'+v))))...))
		if g.of100(absent) {
			delete(r.WriteValues, c)
		}
	}
}

// taken lets a record be taken back, or its provenance be absent.
func (g random) taken(r *trace.Record, absent int) {
	taken := g.of100(15)
	if r.Aborted = &taken; !taken && g.of100(max(absent, 20)) {
		r.Aborted = nil
	}
	if g.of100(5) {
		r.Preds = append(r.Preds, txn(1+g.IntN(9)), "gone")
	}
	if g.of100(absent) {
		r.Preds = nil
	}
}

// tools lets a record plan a tool, and the registry change meanwhile.
func (g random) tools(r *trace.Record, absent int) {
	registry := []string{"t", "u"}
	if g.of100(50) {
		r.PlannedTool = trace.Plan(of(g.IntN, "t", "u", "v"))
	}
	r.ToolsVisibleAtRead, r.ToolsVisibleAtWrite = registry, registry
	if g.of100(25) {
		r.ToolsVisibleAtWrite = []string{"u"}
	}
	r.ToolsUsed = of(g.IntN, []string{}, []string{"t"}, []string{"t", "u"})
	if g.of100(20) {
		r.ToolSignaturesAtRead = map[string]string{"t": "1", "u": "1"}
		r.ToolSignaturesAtWrite = map[string]string{"t": of(g.IntN, "1", "1", "2"), "u": "1"}
	}
	for _, list := range []*[]string{&r.ToolsVisibleAtRead, &r.ToolsVisibleAtWrite, &r.ToolsUsed} {
		if g.of100(absent) {
			*list = nil
		}
	}
	if g.of100(absent) {
		r.PlannedTool = trace.Planned{}
	}
}

// effects lets a record issue its writes and calls, and leave in another order, or not all.
func (g random) effects(r *trace.Record, absent int) {
	for _, c := range r.WriteSet {
		if v := r.WriteValues[c]; v != missing {
			r.IO = append(r.IO, trace.Effect{Cell: c, Value: v})
		}
	}
	if g.of100(30) {
		r.IO = append(r.IO, trace.Effect{Cell: "mail", Value: "1"}, trace.Effect{Cell: "mail", Value: "1"})
	}
	r.CO = slices.Clone(r.IO)
	if g.of100(30) {
		g.Shuffle(len(r.CO), func(i, j int) { r.CO[i], r.CO[j] = r.CO[j], r.CO[i] })
	}
	if g.of100(5) && len(r.CO) > 0 {
		r.CO = r.CO[1:]
	}
	if g.of100(absent) {
		r.CO = nil
	}
	if g.of100(absent) {
		r.IO = nil
	}
}
