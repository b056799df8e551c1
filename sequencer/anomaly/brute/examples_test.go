package brute

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hence-dev/hence/topology/trace"
)

// record reads the notation of these tests: AGENT READ-WRITE, the two times, then r:CELL=VALUE and w:CELL=VALUE, of
// which the value may be missing, then -FIELD for a field that is absent, then JSON for other fields. What is not
// named is there and harmless.
func record(t *testing.T, line string) trace.Record {
	t.Helper()
	line, fields, more := strings.Cut(line, "{")
	words := strings.Fields(line)
	r := quiet(0, words[0])
	r.Txn, r.Replica = "", nil
	stood := false
	r.Aborted = &stood
	from, to, _ := strings.Cut(words[1], "-")
	var errs [2]error
	r.ReadTime, errs[0] = strconv.ParseUint(from, 10, 64)
	r.WriteTime, errs[1] = strconv.ParseUint(to, 10, 64)
	if errs[0] != nil || errs[1] != nil {
		t.Fatalf("%s: %v", line, errs)
	}
	r.Replica = trace.PerCell[string]{}
	for _, word := range words[2:] {
		cell, value, given := strings.Cut(word[2:], "=")
		v := missing
		if given {
			v = trace.Text(value)
		}
		switch {
		case word[:2] == "r:":
			read(&r, cell, v)
			r.Replica[cell] = "primary"
		case word[:2] == "w:":
			write(&r, cell, v)
		case !absent(&r, word):
			t.Fatalf("%s: what is %s?", line, word)
		}
	}
	if more {
		if err := json.Unmarshal([]byte("{"+fields), &r); err != nil {
			t.Fatalf("%s: %v", fields, err)
		}
	}
	return r
}

// absent takes a field out of a record.
func absent(r *trace.Record, field string) bool {
	switch field {
	case "-planned_tool":
		r.PlannedTool = trace.Planned{}
	case "-io":
		r.IO = nil
	case "-co":
		r.CO = nil
	case "-preds":
		r.Preds = nil
	case "-aborted":
		r.Aborted = nil
	case "-replica":
		r.Replica = nil
	case "-read_values":
		r.ReadValues = nil
	default:
		return false
	}
	return true
}

type example struct{ name, history, want string }

// check compares whole answers, line by line: what is not expected must not be found.
func check(t *testing.T, examples []example) {
	t.Helper()
	for _, e := range examples {
		t.Run(e.name, func(t *testing.T) {
			var h []trace.Record
			for line := range strings.Lines(e.history) {
				if strings.TrimSpace(line) != "" {
					h = append(h, record(t, line))
				}
			}
			var want []string
			for line := range strings.Lines(e.want) {
				if line = strings.TrimSpace(line); line != "" {
					want = append(want, line)
				}
			}
			got := strings.Split(strings.TrimSpace(Judge(h).String()), "\n")
			if !slices.Equal(got, want) {
				t.Errorf("found\n\t%s\nexpected\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
			}
		})
	}
}

// paper has the witnesses and the examples of the paper's text, and decisions those of what was decided besides. What
// is expected was written before this package could run.
var paper = []example{
	{"3.1 witness of A1, and 4.5: a snapshot is not enough", `
			a1 0-1 w:c1=v1
			a2 0-2 r:c1=NULL`, `
			A1 2,1 c1
			point {2,3,6} level 0`},
	{"1.1 the travel booking", `
			user 0-1 w:trip=14June
			flight 1-3 r:trip=14June w:booking=14June
			user 1-2 w:trip=21June`, `
			A1 2,3 trip
			point {2,3,6} level 0`},
	{"3.2 witness of A2", `
			a1 0-1 {"planned_tool":"t1","tools_visible_at_read":["t1","t2"],"tools_visible_at_write":["t2"]}`, `
			A2 1
			point {1,3,6} level 3`},
	{"4.16 a signature that changed", `
			a1 0-1 {"planned_tool":"t1","tools_visible_at_read":["t1"],"tools_visible_at_write":["t1"],` +
		`"tool_signatures_at_read":{"t1":"s1"},"tool_signatures_at_write":{"t1":"s2"}}`, `
			A2 by signature 1
			point {1,3,6} level 3`},
	{"3.3 witness of A3: p commits, is aborted later, j read it", `
			p 0-1 w:c1=v1 {"txn":"p","aborted":true}
			j 1-2 r:c1=v1 {"txn":"j","preds":["p"]}`, `
			A3 2,1
			point {1,2,6} level 1`},
	{"3.3 the same in a flat history", `
			p 0-1 w:c1=v1 {"aborted":true}
			j 1-2 r:c1=v1 -preds`, `
			A3 residue 2 c1 possible
			point {1,2,3,6} level 4 or down to 1`},
	{"3.3 witness of the residue, which is also the scenario phantom write", `
			j 0-1 r:c1=v1 -preds -aborted`, `
			A3 residue 1 c1 possible
			point {1,2,3,6} level 4 or down to 1`},
	{"3.3 a benign serial history that reads an unlogged value: A3 is silent", `
			j 0-1 r:c1=seed w:c1=v1
			k 1-2 r:c1=v1`, `
			point {1,2,3,6} level 4`},
	{"3.3 logging the initial value takes the residue away", `
			init 0-1 w:c1=seed -preds
			j 1-2 r:c1=seed -preds`, `
			point {1,2,3,6} level 4`},
	{"3.5 witness of A6", `
			a1 0-1 w:c1=v1 w:c2=v1 {"io":[["c1","v1"],["c2","v1"]],"co":[["c2","v1"],["c1","v1"]]}`, `
			A6 1
			point {1,2,3} level 2`},
	{"2.2 two mails and two updates: issued one way, left the other", `
			a1 0-1 {"io":[["mail","1"],["s1","x"],["s2","y"],["mail","2"]],` +
		`"co":[["mail","1"],["s2","y"],["s1","x"],["mail","2"]]}`, `
			A6 1
			point {1,2,3} level 2`},
	{"4.12 the lagging secondary", `
			w 0-1 w:c=10
			a 1-2 r:c=10 {"replica":{"c":"primary"},"version":{"c":1}}
			b 1-3 r:c=NULL {"replica":{"c":"secondary"},"version":{"c":0}}`, `
			A4 2,3 c
			point {1,2,3,6} level 4`},
	{"4.12 the primary at two versions: 5 then 7", `
			w 0-1 w:c=5
			a 1-2 r:c=5 {"version":{"c":1}}
			w 2-3 w:c=7
			a 3-4 r:c=7 {"version":{"c":2}}`, `
			point {1,2,3,6} level 4`},
	{"5.2 concurrent stale read, 5.3 edit-review", `
			editor 0-1 r:doc=NULL w:doc=v1
			reviewer 0-2 r:doc=NULL w:doc=v2`, `
			A1 2,1 doc
			cycle 1,2
			lost update 2,1 doc
			component 1,2 of cycles from 2: G-single
			point {2,3,6} level 0`},
	{"5.2 linear pipeline", `
			a 0-1 r:progress=NULL w:progress=1
			b 1-2 r:progress=1 w:progress=2
			c 2-3 r:progress=2 w:progress=3`, `
			point {1,2,3,6} level 4`},
	{"5.2 fan-out and merge", `
			coordinator 0-1 w:task=T
			w1 1-2 r:task=T w:r1=A
			w2 1-3 r:task=T w:r2=B
			coordinator 3-4 r:r1=A r:r2=B w:out=AB`, `
			point {1,2,3,6} level 4`},
	{"5.2 single agent", `
			a 0-1 w:p=1
			a 1-2 r:p=1 w:p=2
			a 2-3 r:p=2 w:p=3`, `
			point {1,2,3,6} level 4`},
	{"5.3 plan-execute", `
			planner 0-1 w:plan=P
			executor 1-2 r:plan=P w:result=R`, `
			point {1,2,3,6} level 4`},
	{"5.5 the read-only triager under snapshot isolation; it is serializable", `
			reporter 0-1 w:ticket=v0
			triager 1-3 r:ticket=v0
			reporter 1-2 w:ticket=v1`, `
			A1 2,3 ticket
			point {2,3,6} level 0`},
	{"5.11 plan, execute, revise: the executor stays alive", `
			planner 0-1 w:plan=P {"txn":1,"aborted":true}
			executor 1-2 r:plan=P w:result=R {"txn":2,"preds":[1]}
			supervisor 2-3 r:ticket=NULL w:verdict=no {"txn":3}`, `
			A3 2,1
			point {1,2,6} level 1`},
	{"5.11 the same with the cascade", `
			planner 0-1 w:plan=P {"txn":1,"aborted":true}
			executor 1-2 r:plan=P w:result=R {"txn":2,"preds":[1],"aborted":true}
			supervisor 2-3 r:ticket=NULL w:verdict=no {"txn":3}`, `
			point {1,2,3,6} level 4`},
	{"5.12 five calls, the fastest commits first", `
			a 0-1 {"io":[["create",1],["migrate",1],["seed",1],["index",1],["live",1]],` +
		`"co":[["live",1],["seed",1],["create",1],["index",1],["migrate",1]]}`, `
			A6 1
			point {1,2,3} level 2`},
	{"6.5 deer-flow: todos are lost, the catalogue calls it L4", `
			seed 0-1 w:todos=two
			node 0-2 w:todos=NULL`, `
			null overwrite 2,1 todos
			point {1,2,3,6} level 4`},
	{"6.5 Letta: four read, append and write one block: three of four are lost", `
			a 0-1 r:block=NULL w:block=a
			b 0-2 r:block=NULL w:block=b
			c 0-3 r:block=NULL w:block=c
			d 0-4 r:block=NULL w:block=d`, `
			A1 2,1 block
			A1 3,1 block
			A1 3,2 block
			A1 4,1 block
			A1 4,2 block
			A1 4,3 block
			cycle 1,2,3,4
			lost update 2,1 block
			lost update 3,1 block
			lost update 4,1 block
			component 1,2,3,4 of cycles from 2: G-single
			point {2,3,6} level 0`},
}

var decisions = []example{
	{"1.2 an equal value never fires; an overwritten one does", `
			r 0-4 r:c=NULL
			w 0-1 w:c=1
			w 1-2 w:c=NULL`, `
			A1 1,2 c
			null overwrite 3,2 c
			point {2,3,6} level 0`},
	{"1.2 only strictly inside of the window", `
			r 2-3 r:c=2
			a 1-2 r:c=1 w:c=2
			a 2-3 r:c=2 w:c=3
			a 0-1 w:c=1`, `
			point {1,2,3,6} level 4`},
	{"1.2 no value: the gap is said, A1 does not fire and is not excluded", `
			r 0-2 r:c
			w 0-1 w:c=1`, `
			A1 1,2 c undecidable
			read without value 1 c
			point {1,2,3,6} level 4 or down to 0`},
	{"1.2 a value that was written without being told", `
			r 0-2 r:c=NULL
			w 0-1 w:c`, `
			A1 1,2 c undecidable
			write without value 2 c
			point {1,2,3,6} level 4 or down to 0`},
	{"1.2 what the detectors judge stands: the writer of A1 was taken back", `
			r 0-2 r:c=NULL
			w 0-1 w:c=1 {"aborted":true}`, `
			point {1,2,3,6} level 4`},
	{"1.2 lost update with an equal value and one agent", `
			a 0-1 r:c=NULL w:c=1
			a 0-2 r:c=NULL w:c=1`, `
			A1 of one agent 2,1 c
			cycle 1,2
			lost update 2,1 c
			component 1,2 of cycles from 2: G-single
			point {1,2,3,6} level 4`},
	{"1.2 write skew", `
			a 0-1 r:x=NULL r:y=NULL w:x=1
			b 0-2 r:x=NULL r:y=NULL w:y=1`, `
			A1 2,1 x
			cycle 1,2
			write skew 1,2 y,x
			component 1,2 of cycles from 2: G2
			point {2,3,6} level 0`},
	{"1.2 G1c, and a scar: each read the other, which only times that run backwards allow", `
			a 2-1 r:x=2 w:y=1
			b 1-2 r:y=1 w:x=2`, `
			cycle 1,2
			scar 1,2
			component 1,2 of cycles from 2: G1c
			point {1,2,3,6} level 4`},
	{"1.2 a cycle through three", `
			a 0-1 r:y=NULL w:x=1
			b 0-2 r:z=NULL w:y=1
			c 0-3 r:x=NULL w:z=1`, `
			A1 3,1 x
			cycle 1,2,3
			component 1,2,3 of cycles from 3: G2
			point {2,3,6} level 0`},
	{"1.2 whoever read the version that it deletes overwrites nothing unread", `
			seed 0-1 w:todos=two
			node 1-2 r:todos=two w:todos=NULL`, `
			point {1,2,3,6} level 4`},
	{"1.2 a version of another value was read: no edge says which", `
			seed 0-1 w:c=1
			a 1-3 r:c=9 w:c=2
			b 1-2 w:c=1`, `
			A1 2,3 c
			point {2,3,6} level 0`},
	{"1.2 missing and additional effects are not A6", `
			a 0-1 {"io":[["x",1],["y",1]],"co":[["y",1]]}
			b 1-2 {"io":[["x",1],["y",1]],"co":[["y",1],["x",1],["x",1]]}
			c 2-3 {"io":[["x",1],["x",1],["y",1]],"co":[["y",1],["x",1],["y",1]]}`, `
			effects 1
			effects 2
			effects 3
			point {1,2,3,6} level 4`},
	{"trap 2: another survivor wrote the same value and hides the cascade from the residue", `
			p 0-1 w:c=v {"aborted":true}
			k 0-2 w:c=v
			j 2-3 r:c=v -preds`, `
			point {1,2,3,6} level 4`},
	{"trap 2: with preds it is A3", `
			p 0-1 w:c=v {"txn":"p","aborted":true}
			k 0-2 w:c=v
			j 2-3 r:c=v {"preds":["p"]}`, `
			A3 3,1
			point {1,2,6} level 1`},
	{"trap 3: planned, visible, another one used: the agent may have changed its mind", `
			a 0-1 {"planned_tool":"t1","tools_visible_at_read":["t1","t2"],"tools_used":["t2"]}`, `
			A2 1 possible
			point {1,2,3,6} level 4 or down to 3`},
	{"trap 3: used, so the proxy does not hold", `
			a 0-1 {"planned_tool":"t1","tools_visible_at_read":["t1","t2"],"tools_used":["t1"]}`, `
			point {1,2,3,6} level 4`},
	{"trap 3: it was never visible", `
			a 0-1 {"planned_tool":"t9","tools_visible_at_read":["t1","t2"],"tools_used":["t1"]}`, `
			point {1,2,3,6} level 4`},
	{"trap 3: dispatched to a removed tool is A2 all the same", `
			a 0-1 {"planned_tool":"t1","tools_visible_at_read":["t1"],"tools_visible_at_write":[],"tools_used":["t1"]}`, `
			A2 1
			point {1,3,6} level 3`},
	{"trap 4: a read at the time of the write sees it", `
			w 0-1 w:c=1 -preds
			r 1-2 r:c=1 -preds`, `
			point {1,2,3,6} level 4`},
	{"trap 5: the same version with two values", `
			a 1-2 r:c=10 {"replica":{"c":"p"},"version":{"c":1}}
			b 1-3 r:c=11 {"replica":{"c":"q"},"version":{"c":1}}`, `
			A4 1,2 c
			A4v 1,2 c
			point {1,2,3,6} level 4`},
	{"trap 5: without replica and version nobody can tell", `
			a 1-2 r:c=10 -replica
			b 1-3 r:c=11`, `
			A4 1,2 c undecidable
			A4v 1,2 c undecidable
			point {1,2,3,6} level 4`},
	{"trap 9: published ProvRecords have no tools and no effects", `
			a 0-1 w:c=1 -planned_tool -io -co`, `
			A2 1 undecidable
			A6 1 undecidable
			point {1,2,3,6} level 4 or down to 2`},
	{"trap 10: a refused operation stays in its trace", `
			a 0-1 w:c=1
			b 0-0 r:c=NULL w:c=2 {"txn":"b","aborted":true}`, `
			point {1,2,3,6} level 4`},
	{"trap 11: equal values: not serializable, and not A1", `
			s 0-1 w:x=1 w:y=1
			a 1-2 r:x=1 w:y=1
			b 1-3 r:y=1 w:x=1`, `
			cycle 2,3
			write skew 2,3 x,y
			component 2,3 of cycles from 2: G2
			point {1,2,3,6} level 4`},
	{"trap 18: direct preds", `
			a0 0-1 w:c0=1 {"txn":0,"aborted":true}
			a1 1-2 r:c0=1 w:c1=1 {"txn":1,"preds":[0]}
			a2 2-3 r:c1=1 w:c2=1 {"txn":2,"preds":[1]}
			a3 3-4 r:c2=1 {"txn":3,"preds":[2]}`, `
			A3 2,1
			A3 through others 3,1
			A3 through others 4,1
			point {1,2,6} level 1`},
	{"trap 18: the same with the closure", `
			a0 0-1 w:c0=1 {"txn":0,"aborted":true}
			a1 1-2 r:c0=1 w:c1=1 {"txn":1,"preds":[0]}
			a2 2-3 r:c1=1 w:c2=1 {"txn":2,"preds":[0,1]}
			a3 3-4 r:c2=1 {"txn":3,"preds":[0,1,2]}`, `
			A3 2,1
			A3 3,1
			A3 4,1
			point {1,2,6} level 1`},
	{"trap 18: a forgotten predecessor stands", `
			a 1-2 r:c=1 {"preds":["gone"]}`, `
			point {1,2,3,6} level 4`},
	{"light cones 6.5: a counter that was reset at failover", `
			a 5-6 w:x=1 {"txn":"a"}
			b 0-1 r:x=1 w:y=2 {"txn":"b","preds":["a"]}`, `
			scar 2,1
			point {1,2,3,6} level 4`},
}

func TestPaper(t *testing.T) { check(t, paper) }

func TestDecisions(t *testing.T) { check(t, decisions) }

// TestSixteenPoints: each point of the lattice is the one of a history that has the witnesses of the others.
func TestSixteenPoints(t *testing.T) {
	witness := map[Set][]string{
		A1: {"a 0-1 w:c1=1", "b 0-2 r:c1=NULL"},
		A2: {`a 2-3 {"planned_tool":"t","tools_visible_at_read":["t"],"tools_visible_at_write":[]}`},
		A3: {`a 3-4 w:c3=1 {"txn":"p","aborted":true}`, `b 4-5 r:c3=1 {"preds":["p"]}`},
		A6: {`a 5-6 {"io":[["x",1],["y",1]],"co":[["y",1],["x",1]]}`},
	}
	named := map[Set]int{0: 0, A1: 1, A1 | A3: 2, A1 | A3 | A6: 3, All: 4}
	for point := Set(0); point <= All; point++ {
		var h []trace.Record
		for _, anomaly := range []Set{A1, A2, A3, A6} {
			if point&anomaly == 0 {
				for _, line := range witness[anomaly] {
					h = append(h, record(t, line))
				}
			}
		}
		answer := Judge(h)
		low, high := answer.Levels()
		if answer.Point() != point || answer.LowPoint() != point || low != high {
			t.Errorf("%v: found %v, levels %d to %d", point, answer, low, high)
		}
		if level, is := named[point]; is && level != high {
			t.Errorf("%v is L%d, not L%d", point, level, high)
		}
	}
	if got := fmt.Sprint(All, A1|A6, Set(0)); got != "{1,2,3,6} {1,6} {}" {
		t.Error(got)
	}
}

// TestForgotten counts names that no record has, once for each record that stands.
func TestForgotten(t *testing.T) {
	h := []trace.Record{
		record(t, `a 0-1 {"txn":"a","preds":["gone","gone","other","b"]}`),
		record(t, `b 1-2 {"txn":"b","preds":["gone"]}`),
		record(t, `c 2-3 {"txn":"c","preds":["gone"],"aborted":true}`),
	}
	if got := Judge(h).Forgotten; got != 3 {
		t.Errorf("%d forgotten, not 3", got)
	}
}
