package sim

import "github.com/hence-dev/hence/sequencer"

// wire is the way of intents into the log: each producer's records stay in order, are tried again until they are
// acknowledged, and may therefore be there twice; some come again much later.
type wire struct {
	lines  []line
	strays []parcel
}

// line is one producer's queue.
type line struct {
	producer int
	queue    []parcel
	until    int // it makes no try before
}

type parcel struct {
	in   *sequencer.Intent
	due  int // strays
	sent int
	done func(sent int) // when the record is acknowledged; nil: not needed
}

// ticker is the producer of a processor's ticks.
func ticker(processor int) int { return 100 + processor }

func (w *wire) line(producer int) *line {
	for i := range w.lines {
		if w.lines[i].producer == producer {
			return &w.lines[i]
		}
	}
	w.lines = append(w.lines, line{producer: producer})
	return &w.lines[len(w.lines)-1]
}

func (w *wire) send(producer int, p parcel) {
	l := w.line(producer)
	l.queue = append(l.queue, p)
}

func (w *wire) length(producer int) int { return len(w.line(producer).queue) }

// cut ends a producer: what it had not got acknowledged is lost, or still on its way.
func (w *wire) cut(r *run, producer int) {
	l := w.line(producer)
	for _, p := range l.queue {
		if r.chance(0.5) {
			w.strays = append(w.strays, parcel{in: p.in, due: r.now + r.n(80)})
		}
	}
	l.queue, l.until = nil, 0
}

func (w *wire) step(r *run) {
	kept := w.strays[:0]
	var due []parcel
	for _, p := range w.strays {
		if p.due <= r.now {
			due = append(due, p)
		} else {
			kept = append(kept, p)
		}
	}
	w.strays = kept
	for _, p := range due {
		r.append(p.in)
	}
	for i := range w.lines {
		w.pump(r, i)
	}
}

// pump tries the records at the head of one producer's queue.
func (w *wire) pump(r *run, i int) {
	for range 3 {
		l := &w.lines[i]
		if len(l.queue) == 0 || l.until > r.now || r.chance(r.swarm.stall) {
			return
		}
		p := l.queue[0]
		if r.chance(r.swarm.lose) {
			r.fault()
			l.until = r.now + 1 + r.n(8)
			return
		}
		r.append(p.in)
		if r.chance(r.swarm.ackLost) {
			r.fault()
			l.until = r.now + 1 + r.n(8)
			return
		}
		if r.chance(r.swarm.lateDup) {
			r.fault()
			w.strays = append(w.strays, parcel{in: p.in, due: r.now + r.n(150)})
		}
		l.queue = l.queue[1:]
		if p.done != nil {
			p.done(p.sent)
		}
	}
}

// hurry lets everything that comes late come soon.
func (w *wire) hurry(now int) {
	for i := range w.strays {
		w.strays[i].due = min(w.strays[i].due, now+20)
	}
	for i := range w.lines {
		w.lines[i].until = 0
	}
}

func (w *wire) empty() bool {
	for i := range w.lines {
		if w.lines[i].producer < ticker(0) && len(w.lines[i].queue) > 0 {
			return false
		}
	}
	return len(w.strays) == 0
}
