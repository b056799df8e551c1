package streams

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// leaveIn bounds the farewell: without it the group only waits for the session timeout.
const leaveIn = 2 * time.Second

// leave takes this process's static member out of a group. A static member that just stops keeps its partitions until
// its session times out, so that a restart finds them again; whoever is told to end may not come back, and its
// workspaces would stand still for those seconds.
func (c Config) leave(ctx context.Context, out producer, group string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveIn)
	defer cancel()
	member := kadm.LeaveGroup(group).InstanceIDs(c.instanceOf(group)).Reason("told to end")
	if _, err := kadm.NewClient(out.client).LeaveGroup(ctx, member); err != nil {
		c.Logger.Warn("the group was not told of the end: its other members wait for the session timeout",
			"group", group, "error", err)
	}
}

// instanceOf is this process's name among the members of a group.
func (c Config) instanceOf(group string) string { return c.Instance + "-" + group }
