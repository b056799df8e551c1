package torture

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hence-dev/hence/gate/failpoint"
	"github.com/hence-dev/hence/it/harness"
)

// kind is one way to break something.
type kind struct {
	name string
	// strike begins the fault, lets it last and ends it. It says whether it landed and since when all is well again: from
	// then on the time of the recovery is counted.
	strike func(l *lab, rng *rand.Rand) (landed bool, healed time.Time, err error)
	kills  bool              // it is one of the table of crashes
	three  bool              // it needs three brokers
	cannot func(*lab) string // why it cannot be made to land here; nil: it can
}

// kinds lists all of them, in the order of the report.
func kinds() []kind {
	return []kind{
		{name: "kill a processor", kills: true, strike: killOne(func(l *lab) []*part { return l.procs })},
		{name: "kill a sidecar", kills: true, strike: killOne(func(l *lab) []*part { return l.cars })},
		{name: "kill NATS", kills: true, strike: killNATS},
		{name: "kill a broker", kills: true, strike: killBroker},
		{name: "kill both processors", strike: killBoth},
		{name: "kill a sidecar again while it starts", strike: killTwice},
		{name: "kill a sidecar at a failpoint", strike: killAtPoint},
		{name: "pause a processor", strike: pauseOne(func(l *lab) []*part { return l.procs })},
		{name: "pause a sidecar", strike: pauseOne(func(l *lab) []*part { return l.cars })},
		{name: "pause NATS", strike: func(l *lab, rng *rand.Rand) (bool, time.Time, error) {
			return held(l.pids(l.nats), lasts(rng, 8*time.Second))
		}},
		{name: "pause a broker", strike: func(l *lab, rng *rand.Rand) (bool, time.Time, error) {
			return held(l.pids(filepath.Join(l.kafka, l.aBroker(rng))), lasts(rng, 5*time.Second))
		}},
		{name: "pause all brokers", three: true, strike: func(l *lab, rng *rand.Rand) (bool, time.Time, error) {
			var all []string
			for i := range l.brokers {
				all = append(all, filepath.Join(l.kafka, strconv.Itoa(i+1)))
			}
			return held(l.pids(all...), lasts(rng, 4*time.Second))
		}},
		{name: "wipe NATS", strike: wipeNATS},
		{name: "cut sidecars from Kafka", strike: weathered("sidecars-kafka", weather{cut: true})},
		{name: "cut sidecars from NATS", strike: weathered("sidecars-nats", weather{cut: true})},
		{name: "cut processors from Kafka", strike: weathered("processors-kafka", weather{cut: true})},
		{name: "cut processors from NATS", strike: weathered("processors-nats", weather{cut: true})},
		{name: "slow link to Kafka", strike: weathered("sidecars-kafka", weather{delay: 150 * time.Millisecond})},
		{name: "slow link to NATS", strike: weathered("sidecars-nats", weather{delay: 150 * time.Millisecond})},
		{name: "reset inside frames of Kafka", strike: weathered("sidecars-kafka", weather{reset: 700})},
		{name: "reset inside frames, processors", strike: weathered("processors-kafka", weather{reset: 3000})},
		{name: "answers of Kafka lost", strike: weathered("sidecars-kafka", weather{oneWay: true})},
		{name: "answers of Kafka lost, processors", strike: weathered("processors-kafka", weather{oneWay: true})},
		{name: "deliveries of NATS lost", strike: weathered("sidecars-nats", weather{oneWay: true})},
		{name: "disk of a sidecar full", strike: fillDisk, cannot: boxed},
		{name: "journal torn", strike: spoilt(harness.JournalTorn)},
		{name: "journal with a flipped bit", strike: spoilt(harness.JournalFlipped)},
		{name: "journal lost", strike: spoilt(harness.JournalGone)},
		{name: "monotonic clock shifted", strike: shiftSteady, cannot: timeNamespaces},
		{name: "wall clock jumps", strike: shiftWall},
	}
}

// lasts is how long a fault lasts: mostly a hiccup, one time in eight up to the most.
func lasts(rng *rand.Rand, most time.Duration) time.Duration {
	if rng.IntN(8) == 0 {
		return most/2 + time.Duration(rng.Int64N(int64(most/2)))
	}
	return 150*time.Millisecond + time.Duration(rng.Int64N(int64(1200*time.Millisecond)))
}

func one[T any](rng *rand.Rand, of []T) T { return of[rng.IntN(len(of))] }

func (l *lab) aBroker(rng *rand.Rand) string { return strconv.Itoa(1 + rng.IntN(l.brokers)) }

// held is a pause of processes, and when it was over.
func held(pids []int, d time.Duration) (bool, time.Time, error) {
	landed, err := hold(pids, d)
	return landed, time.Now(), err
}

func killOne(of func(*lab) []*part) func(*lab, *rand.Rand) (bool, time.Time, error) {
	return func(l *lab, rng *rand.Rand) (bool, time.Time, error) {
		p := one(rng, of(l))
		landed, err := p.kill()
		pass(time.Duration(rng.Int64N(int64(300 * time.Millisecond))))
		healed := time.Now()
		return landed, healed, errors.Join(err, p.start())
	}
}

func killBoth(l *lab, rng *rand.Rand) (landed bool, healed time.Time, err error) {
	landed = true
	for _, p := range l.procs {
		was, failed := p.kill()
		landed, err = landed && was, errors.Join(err, failed)
	}
	pass(lasts(rng, 3*time.Second))
	healed = time.Now()
	for _, p := range l.procs {
		err = errors.Join(err, p.start())
	}
	return landed, healed, err
}

// killTwice kills a sidecar, and the next one at some moment of its start.
func killTwice(l *lab, rng *rand.Rand) (bool, time.Time, error) {
	p := one(rng, l.cars)
	landed, err := p.kill()
	if err != nil {
		return false, time.Now(), err
	}
	point := one(rng, l.passed(failpoint.Start()))
	err = p.startAs(how{env: []string{fmt.Sprintf("HENCE_FAILPOINT=%s:1", point)}})
	if err != nil && !errors.Is(err, harness.ErrEnded) {
		return false, time.Now(), err
	}
	landed = l.diedAt(point, landed && err != nil) // a point that this start does not pass is a void
	if _, err := p.kill(); err != nil {
		return false, time.Now(), err
	}
	healed := time.Now()
	return landed, healed, p.start()
}

// killAtPoint has a sidecar die at one of the named places of its work.
func killAtPoint(l *lab, rng *rand.Rand) (bool, time.Time, error) {
	p := one(rng, l.cars)
	if _, err := p.kill(); err != nil {
		return false, time.Now(), err
	}
	point := one(rng, l.passed(failpoint.Work()))
	nth := 1 + rng.IntN(4)
	err := p.startAs(how{env: []string{fmt.Sprintf("HENCE_FAILPOINT=%s:%d", point, nth)}})
	if err != nil && !errors.Is(err, harness.ErrEnded) {
		return false, time.Now(), err
	}
	landed := l.diedAt(point, p.died(4*time.Second))
	if _, err := p.kill(); err != nil {
		return false, time.Now(), err
	}
	healed := time.Now()
	return landed, healed, p.start()
}

// passed are the points of which it is not known yet that nothing comes to them here.
func (l *lab) passed(points []failpoint.Point) []failpoint.Point {
	return slices.DeleteFunc(points, func(p failpoint.Point) bool { return l.idle[p] > 1 })
}

// diedAt notes whether a sidecar died at a point.
func (l *lab) diedAt(point failpoint.Point, did bool) bool {
	if did {
		l.points[string(point)]++
		l.idle[point] = 0
	} else {
		l.idle[point]++
	}
	return did
}

func pauseOne(of func(*lab) []*part) func(*lab, *rand.Rand) (bool, time.Time, error) {
	return func(l *lab, rng *rand.Rand) (bool, time.Time, error) {
		return held([]int{one(rng, of(l)).running().PID}, lasts(rng, 14*time.Second)) // longer than a lease
	}
}

func killNATS(l *lab, rng *rand.Rand) (bool, time.Time, error) {
	landed := alive(l.pids(l.nats)[0])
	err := l.natsDo("kill")
	pass(time.Duration(rng.Int64N(int64(500 * time.Millisecond))))
	err = errors.Join(err, l.natsDo("up"))
	return landed, time.Now(), err
}

// wipeNATS brings the server up without anything that it kept.
func wipeNATS(l *lab, _ *rand.Rand) (bool, time.Time, error) {
	data := filepath.Join(l.nats, "data")
	_, none := os.Stat(data)
	err := errors.Join(l.natsDo("kill"), os.RemoveAll(data), l.natsDo("up"))
	return none == nil, time.Now(), err
}

// killBroker kills one broker: of one, all stand still until it is back; of three, the others go on.
func killBroker(l *lab, rng *rand.Rand) (bool, time.Time, error) {
	n := l.aBroker(rng)
	landed := alive(l.pids(filepath.Join(l.kafka, n))[0])
	err := l.kafkaDo("kill", n)
	if l.brokers > 1 {
		pass(lasts(rng, 6*time.Second))
	}
	err = errors.Join(err, l.kafkaDo("up", n))
	return landed, time.Now(), err
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// weathered lets a kind of links be as they should not be.
func weathered(links string, w weather) func(*lab, *rand.Rand) (bool, time.Time, error) {
	return func(l *lab, rng *rand.Rand) (bool, time.Time, error) {
		before := l.hits(links)
		for _, between := range l.links[links] {
			between.set(w)
		}
		pass(lasts(rng, 6*time.Second))
		for _, between := range l.links[links] {
			between.set(weather{})
		}
		return l.hits(links) > before, time.Now(), nil
	}
}

func (l *lab) hits(links string) (n int64) {
	for _, between := range l.links[links] {
		n += between.landed.Load()
	}
	return n
}

func boxed(l *lab) string { return l.boxless }

// fillDisk leaves no byte on a sidecar's file system, for a while. It landed where the sidecar could not have written.
func fillDisk(l *lab, rng *rand.Rand) (bool, time.Time, error) {
	p := one(rng, l.cars)
	path := p.inDisk("filler")
	f, err := os.Create(path)
	if err != nil {
		return false, time.Now(), err
	}
	block := make([]byte, 64<<10) // the last one is written in part
	for err == nil {
		_, err = f.Write(block)
	}
	landed := errors.Is(err, syscall.ENOSPC)
	f.Close()
	pass(lasts(rng, 4*time.Second))
	return landed, time.Now(), os.Remove(path)
}

// spoilt kills a sidecar and does something to its journal before the next one starts.
func spoilt(fate string) func(*lab, *rand.Rand) (bool, time.Time, error) {
	return func(l *lab, rng *rand.Rand) (bool, time.Time, error) {
		p := one(rng, l.cars)
		landed, err := p.kill()
		if err != nil {
			return false, time.Now(), err
		}
		paths, err := harness.JournalsIn(p.inDisk(""))
		if err == nil {
			_, err = harness.SpoilJournals(p.inDisk(""), fate, p.name, p.name, rng.Uint64())
		}
		healed := time.Now()
		return landed && len(paths) > 0, healed, errors.Join(err, p.start())
	}
}

func timeNamespaces(*lab) string {
	if _, err := os.Stat("/proc/self/ns/time"); err != nil || os.Geteuid() != 0 {
		return "no time namespace can be made here"
	}
	return ""
}

// shiftSteady starts a sidecar on a machine that seems to be up for longer, and then, without a farewell, on the real
// one: what it noted of leases lies in another time.
func shiftSteady(l *lab, rng *rand.Rand) (bool, time.Time, error) {
	p := one(rng, l.cars)
	_, err := p.kill()
	if err == nil {
		err = p.startAs(how{clock: time.Duration(1+rng.IntN(100_000)) * time.Second})
	}
	if err != nil {
		return false, time.Now(), err
	}
	landed := inOwnTime(p.running().PID)
	pass(lasts(rng, 3*time.Second))
	was, err := p.kill()
	healed := time.Now()
	return landed && was, healed, errors.Join(err, p.start())
}

// inOwnTime says whether a process is in another time namespace than this one.
func inOwnTime(pid int) bool {
	here, err := os.Readlink("/proc/self/ns/time")
	there, failed := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "ns/time"))
	return err == nil && failed == nil && here != there
}

// shiftWall has the clock of a sidecar or a processor jump while it works, by seconds or by days, either way.
func shiftWall(l *lab, rng *rand.Rand) (bool, time.Time, error) {
	p := one(rng, slices.Concat(l.cars, l.procs))
	by := one(rng, []time.Duration{3 * time.Second, time.Minute, 49 * time.Hour})
	if rng.IntN(2) == 0 {
		by = -by
	}
	_, err := p.kill()
	if err == nil {
		err = p.startAs(how{env: []string{fmt.Sprintf("HENCE_FAILPOINT_WALL=700ms,%v", by)}})
	}
	if err != nil {
		return false, time.Now(), err
	}
	pass(700*time.Millisecond + lasts(rng, 4*time.Second))
	landed := strings.Contains(p.running().Words(), "the wall clock jumps")
	was, err := p.kill()
	healed := time.Now()
	return landed && was, healed, errors.Join(err, p.start())
}
