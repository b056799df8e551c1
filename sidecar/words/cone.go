package words

import (
	"github.com/hence-dev/hence/sidecar/api"
	"github.com/hence-dev/hence/topology"
)

// Cone is what a retraction would undo, as the API writes it.
func Cone(cone *topology.Cone) *api.Retraction {
	r := &api.Retraction{Tx: string(cone.Tx), State: api.RetractPossible, Through: uint64(cone.Through),
		Total: int(cone.Total), Cone: []api.ConeMember{}, Undo: Undo(cone)}
	for i := range cone.Members {
		m := &cone.Members[i]
		one := api.ConeMember{Tx: string(m.Tx), Agent: m.Agent, Seq: uint64(m.Seq), Depth: int(m.Depth), Why: m.Why,
			Of: string(m.Of), At: string(m.At)}
		for _, s := range m.Writes {
			one.Writes = append(one.Writes, string(s))
		}
		for _, s := range m.Restored {
			one.Restored = append(one.Restored, api.ShardRestored{Scope: string(s.Scope), Seq: uint64(s.Seq),
				Writer: string(s.Tx), Absent: s.Absent, Unknown: s.Unknown})
		}
		r.Cone = append(r.Cone, one)
	}
	return r
}
