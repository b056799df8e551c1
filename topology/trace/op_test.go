package trace_test

import (
	"reflect"
	"testing"

	"github.com/hence-dev/hence/sequencer/anomaly"
	"github.com/hence-dev/hence/topology/trace"
)

// TestOp: what a record does not say is unknown to the detectors, what it says is there.
func TestOp(t *testing.T) {
	r := readOne(t, `{"txn":7,"agent":"a","read_set":["x","y"],"read_values":{"x":1},"read_time":2,`+
		`"read_times":{"y":1},"write_set":["z"],`+
		`"write_values":{"z":"NULL"},"write_time":3,"planned_tool":"t","io":[["z",null]],"co":[],"preds":[6],`+
		`"aborted":true,"replica":"r","version":{"x":4}}`)
	want := anomaly.Op{Line: 9, Name: "7", Agent: "a", ReadTime: 2, WriteTime: 3,
		Reads: []anomaly.Read{{Cell: "x", Value: "1", Replica: "r", Version: "4"},
			{Cell: "y", Replica: "r", Timed: true, Time: 1}},
		Writes: []anomaly.Write{{Cell: "z", Value: anomaly.Null}}, Aborted: true,
		Plan: anomaly.Plan{Known: true, Tool: "t"}, HasPreds: true, Preds: []string{"6"},
		Order: anomaly.Order{IssuedKnown: true, HappenedKnown: true,
			Issued: []anomaly.Write{{Cell: "z", Value: anomaly.Null}}, Happened: []anomaly.Write{}}}
	if got := r.Op(9); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
	bare := readOne(t, `{"agent":"a","read_set":[],"read_time":0,"write_set":[],"write_time":0,"io":[]}`)
	if got := bare.Op(1); !reflect.DeepEqual(got, anomaly.Op{Line: 1, Agent: "a",
		Order: anomaly.Order{IssuedKnown: true, Issued: []anomaly.Write{}}}) {
		t.Errorf("a record with nothing but what is required is %+v", got)
	}
}

// TestPlan: where the registries of a planned tool come from.
func TestPlan(t *testing.T) {
	const u, no, yes = anomaly.Unknown, anomaly.No, anomaly.Yes
	for fields, want := range map[string]anomaly.Plan{
		``:                                    {},
		`"planned_tool":null,`:                {Known: true},
		`"planned_tool":"NULL",`:              {Known: true},
		`"planned_tool":"t","tools_used":[],`: {Known: true, Tool: "t", Used: no},
		`"planned_tool":"t","tools_visible_at_read":["t"],"tools_visible_at_write":["s"],"tools_used":["t"],`: {Known: true,
			Tool: "t", AtRead: yes, AtWrite: no, Used: yes},
		`"planned_tool":"t","tool_signatures_at_read":{"t":"1"},`: {Known: true, Tool: "t", AtRead: yes, AtWrite: u},
		`"planned_tool":"t","tool_signatures_at_read":{"t":"1"},"tool_signatures_at_write":{"t":"1"},`: {Known: true,
			Tool: "t", AtRead: yes, AtWrite: yes},
		`"planned_tool":"t","tool_signatures_at_read":{"t":"1"},"tool_signatures_at_write":{"t":"2"},`: {Known: true,
			Tool: "t", AtRead: yes, AtWrite: yes, ChangedSince: true},
		`"planned_tool":"t","tool_signatures_at_read":{"t":"1"},"tool_signatures_at_write":{},`: {Known: true,
			Tool: "t", AtRead: yes, AtWrite: no, ChangedSince: true},
		`"planned_tool":"t","tool_signatures_at_read":{},"tool_signatures_at_write":{"t":"2"},`: {Known: true,
			Tool: "t", AtRead: no, AtWrite: yes},
	} {
		r := readOne(t, `{`+fields+`"agent":"a","read_set":[],"read_time":0,"write_set":[],"write_time":0}`)
		if got := r.Op(1).Plan; got != want {
			t.Errorf("%s is %+v, want %+v", fields, got, want)
		}
	}
	if trace.Plan("").Tool != "" || !trace.Plan("").Known {
		t.Error("no tool planned is known")
	}
}
