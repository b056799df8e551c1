package sim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// knobs are the faults and wishes of a schedule by name: shrinking a failing schedule leaves them out one by one.
func (f *faults) knobs() map[string]*float64 {
	return map[string]*float64{"lose": &f.lose, "unknown": &f.unknown, "late": &f.late, "twice": &f.twice,
		"events": &f.events, "drop": &f.drop, "again": &f.again, "cut": &f.cut, "crash": &f.crash, "power": &f.power,
		"empty": &f.empty, "copies": &f.copies, "partition": &f.partition, "zombie": &f.zombie, "forGood": &f.forGood,
		"disk": &f.disk, "full": &f.full, "callLost": &f.callLost, "callMute": &f.callMute, "callNo": &f.callNo,
		"callDown": &f.callDown, "callTwice": &f.callTwice, "keyed": &f.keyed, "looks": &f.looks, "retract": &f.retract,
		"residue": &f.residue, "plans": &f.plans, "asks": &f.asks, "ordered": &f.mode[1],
		"locked": &f.mode[2], "keeperCrash": &f.keeperCrash, "keeperPause": &f.keeperPause, "natsLose": &f.natsLose,
		"tickLost": &f.tickLost, "snapshotLag": &f.snapshotLag,
		"branches": &f.branches, "commits": &f.commits, "expects": &f.expects, "levels": &f.levels, "watches": &f.watches,
		"updates": &f.updates, "deltas": &f.deltas, "readers": &f.readers, "resets": &f.resets, "tokens": &f.tokens,
		"pins": &f.pins, "registry": &f.registry, "hook": &f.hook, "veto": &f.veto, "hookMute": &f.hookMute,
		"rules": &f.rules, "observing": &f.observing, "brief": &f.brief, "strikes": &f.strikes,
		"caps": &f.caps, "wide": &f.wide, "may": &f.may, "poison": &f.poison}
}

// Knobs are the names that Options.Mute knows.
func Knobs() []string { return slices.Sorted(maps.Keys((&faults{}).knobs())) }

// mute leaves faults and wishes out; others are drawn as they were.
func (f *faults) mute(names []string) {
	all := f.knobs()
	for _, name := range names {
		if at := all[name]; at != nil {
			*at = 0
		}
	}
}

// command repeats a schedule.
func (o *Options) command(seed uint64) string {
	args := fmt.Sprintf("go test -count=1 -cpu 1 ./sidecar/sim -run 'TestRealSeed$' -seed %d", seed)
	if o.Steps > 0 {
		args += " -steps " + strconv.Itoa(o.Steps)
	}
	if o.Clean {
		args += " -clean"
	}
	if len(o.Strikes) > 0 {
		args += " -strikes " + joined(o.Strikes)
	}
	if len(o.Mute) > 0 {
		args += " -mute " + strings.Join(o.Mute, ",")
	}
	return args
}

func joined(list []Strike) string {
	var out []string
	for _, s := range list {
		out = append(out, s.String())
	}
	return strings.Join(out, ",")
}

// ParseStrikes reads what Strike.String writes, with commas between several.
func ParseStrikes(text string) (list []Strike, err error) {
	for one := range strings.SplitSeq(text, ",") {
		if one == "" {
			continue
		}
		at, name, _ := strings.Cut(one, ":")
		s := Strike{}
		if s.At, err = strconv.Atoi(at); err != nil {
			return nil, fmt.Errorf("strike %q: %w", one, err)
		}
		for how := Fails; how <= lastHow; how++ {
			if how.String() == name {
				s.How = how
			}
		}
		if s.How == 0 {
			return nil, fmt.Errorf("strike %q: there is no %q", one, name)
		}
		list = append(list, s)
	}
	return list, nil
}
