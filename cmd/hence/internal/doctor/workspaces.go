package doctor

import (
	"fmt"
	"strings"

	"github.com/hence-dev/hence/cmd/hence/internal/show"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/streams/inspect"
	"github.com/hence-dev/hence/topology"
)

// saidNames is how many stored names of one workspace the doctor lists.
const saidNames = 5

// sayLogic names workspaces whose rules are of an older logic than this version's. That is no fault: a log goes on
// under the logic that it has until it is raised.
func sayLogic(found *checkup, r *inspect.Report, _ map[string]bool) {
	newest := 0
	for _, w := range r.Workspaces {
		switch {
		case w.Logic == 0: // no processor answers, which the finding on the groups says
		case w.Logic < sequencer.Logic:
			found.advise("rules", fmt.Sprintf("hence rules set --workspace %s --logic %d  # once each processor and sidecar "+
				"has this version or a later one; one that has not stops there", w.Name, sequencer.Logic),
				"workspace %s follows logic %d; the newest is %d", w.Name, w.Logic, sequencer.Logic)
		default:
			newest++
		}
	}
	if newest > 0 {
		found.ok("rules", "%s the newest logic, %d", follow(newest), sequencer.Logic)
	}
}

func follow(n int) string {
	if n == 1 {
		return "1 workspace follows"
	}
	return fmt.Sprintf("%d workspaces follow", n)
}

// sayNames names shards that an older release has stored under a name that is not in NFC, with what renames them.
func sayNames(found *checkup, r *inspect.Report, _ map[string]bool) {
	for _, w := range r.Workspaces {
		for _, name := range w.OtherNames[:min(len(w.OtherNames), saidNames)] {
			found.advise("names", renameShard(w.Name, name), "%s of workspace %s is stored under a name that is not in "+
				"Unicode NFC: only its own bytes reach it, and no other spelling of the name does", name, w.Name)
		}
		if more := len(w.OtherNames) - saidNames + w.MoreNames; more > 0 {
			found.note("names", "workspace %s stores %s more under such names", w.Name, show.Several(more, "shard"))
		}
	}
	for _, p := range r.NamesUnread {
		found.note("names", "not all stored names of partition %d were checked", p)
	}
}

// renameShard is the command that moves a shard's content to its name's one spelling. The old name is written empty,
// which gives it up; where something else has the other name the second step refuses, and nothing is changed.
func renameShard(workspace string, name sequencer.Scope) string {
	normal, err := topology.NormalScope(name)
	if err != nil {
		return "read it under its bytes, write its content under a shorter name, and then write it empty"
	}
	old, now := strings.TrimPrefix(string(name), "shard:/"), strings.TrimPrefix(string(normal), "shard:/")
	return fmt.Sprintf(`U=$HENCE_URL/v1/workspaces/%s/shards A="Authorization: Bearer $HENCE_TOKEN"; `+
		`T=$(curl -fsSH "$A" -o shard.tmp -w '%%{content_type}' "$U/%[2]s") && `+
		`curl -fsSH "$A" -X PUT -H "Content-Type: $T" -H 'If-None-Match: *' --data-binary @shard.tmp "$U/%[3]s" && `+
		`curl -fsSH "$A" -X PUT --data-binary '' "$U/%[2]s"`, workspace, old, now)
}
