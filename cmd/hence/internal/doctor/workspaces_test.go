package doctor

import (
	"strings"
	"testing"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams/inspect"
)

// TestDoctorWorkspaces holds that the doctor names workspaces below the newest logic and stored names that are not in
// NFC, each with its command, and that neither is a problem.
func TestDoctorWorkspaces(t *testing.T) {
	found := &checkup{}
	r := &inspect.Report{NamesUnread: []int32{3}, Workspaces: []inspect.WorkspaceFact{
		{Name: "new", Logic: sequencer.Logic},
		{Name: "old", Logic: sequencer.Logic - 1, OtherNames: []sequencer.Scope{"shard:/cafe%CC%81/x"}},
		{Name: "silent"},
		{Name: "full", Logic: sequencer.Logic, MoreNames: 7, OtherNames: []sequencer.Scope{"shard:/e%CC%81/1",
			"shard:/e%CC%81/2", "shard:/e%CC%81/3", "shard:/e%CC%81/4", "shard:/e%CC%81/5", "shard:/e%CC%81/6"}},
		{Name: "long", OtherNames: []sequencer.Scope{sequencer.Scope("shard:/" + strings.Repeat("%E0%A5%98", 112))}},
	}}
	sayLogic(found, r, nil)
	sayNames(found, r, nil)
	d := Diagnosis{Findings: found.all, Problems: found.problems}
	d.holds(t, "rules", levelOK, "2 workspaces follow the newest logic, 5", "")
	d.holds(t, "rules", levelNote, "workspace old follows logic 4; the newest is 5",
		"hence rules set --workspace old --logic 5  # ")
	d.holds(t, "names", levelNote, "shard:/cafe%CC%81/x of workspace old",
		`--data-binary @shard.tmp "$U/caf%C3%A9/x" && `)
	d.holds(t, "names", levelNote, "workspace full stores 8 shards more", "")
	d.holds(t, "names", levelNote, "partition 3", "")
	d.holds(t, "names", levelNote, "of workspace long", "under a shorter name")
	if len(found.all) != 11 || d.Problems != 0 {
		t.Errorf("%d findings, %d problems: %+v", len(found.all), d.Problems, found.all)
	}
}
