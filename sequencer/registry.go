package sequencer

import (
	"cmp"
	"crypto/sha256"
	"slices"
)

// catalogues keeps each set of tools once, however many sidecars announce it.
type catalogues struct {
	byHash map[Hash]*catalogue
	bytes  int
}

type catalogue struct {
	Catalogue
	uses int
}

func newCatalogues() catalogues { return catalogues{byHash: map[Hash]*catalogue{}} }

func (c *catalogues) keep(tools []Tool) Hash {
	tools = slices.Clone(tools)
	slices.SortFunc(tools, func(a, b Tool) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Signature, b.Signature))
	})
	tools = slices.CompactFunc(tools, func(a, b Tool) bool { return a.Name == b.Name })
	h := Catalogue{Tools: tools}.hash()
	if c.byHash[h] == nil {
		c.byHash[h] = &catalogue{Catalogue: Catalogue{Hash: h, Tools: tools}}
		c.bytes += toolBytes(tools)
	}
	c.byHash[h].uses++
	return h
}

func (c *catalogues) release(h Hash) {
	k := c.byHash[h]
	if k == nil {
		return
	}
	if k.uses--; k.uses == 0 {
		delete(c.byHash, h)
		c.bytes -= toolBytes(k.Tools)
	}
}

func (sc *SidecarState) server(name string) (at int, found bool) {
	return slices.BinarySearchFunc(sc.Servers, name, func(s ServerState, name string) int {
		return cmp.Compare(s.Server, name)
	})
}

// has reports whether the sidecar's registry holds the tool exactly as it was pinned.
func (c *catalogues) has(sc *SidecarState, p Pin) bool {
	at, found := sc.server(p.Server)
	if !found || !sc.Servers[at].Present {
		return false
	}
	k := c.byHash[sc.Servers[at].Catalogue]
	i, found := slices.BinarySearchFunc(k.Tools, p.Name, func(t Tool, name string) int {
		return cmp.Compare(t.Name, name)
	})
	return found && k.Tools[i].Signature == p.Signature
}

func (c Catalogue) hash() Hash {
	var e encoder
	for _, t := range c.Tools {
		e.str(t.Name)
		e.str(t.Signature)
	}
	return sha256.Sum256(e)
}

func toolBytes(tools []Tool) int {
	n := 48
	for _, t := range tools {
		n += 8 + len(t.Name) + len(t.Signature)
	}
	return n
}

// applyRegister announces or withdraws a server's tools as one sidecar sees them. A generation that is not newer is a
// duplicate, or came late.
func (f *Fold) applyRegister(in *Intent) {
	sc, r := f.sidecars.live(in.Incarnation), in.Register
	at, found := sc.server(r.Server)
	if found && r.Generation <= sc.Servers[at].Generation {
		return
	}
	n := toolBytes(r.Tools)
	if n > int(f.rules.MaxBytes) || f.catalogues.bytes+n > f.openBudget()/2 || !found && len(sc.Servers) >= maxServers {
		f.refuse(in, nil, finding{code: CodeLimit, detail: "the catalogue is larger than the rules allow"})
		return
	}
	if !found {
		sc.Servers = slices.Insert(sc.Servers, at, ServerState{Server: r.Server})
	}
	s := &sc.Servers[at]
	former := s.Catalogue
	s.Generation, s.Present = r.Generation, in.Kind == IntentRegister
	o := Outcome{Kind: OutcomeUnregistered, Agent: in.Agent, Incarnation: in.Incarnation, Server: r.Server}
	s.Catalogue = Hash{}
	if s.Present {
		s.Catalogue = f.catalogues.keep(r.Tools)
		o.Kind, o.Catalogue = OutcomeRegistered, s.Catalogue
	}
	f.catalogues.release(former)
	f.emit(o)
	for _, t := range f.inOrder(func(t *tx) bool {
		return t.Phase == PhaseSealed && t.Incarnation == in.Incarnation && len(t.Seal.Pins) > 0
	}) {
		f.wakeTx(t)
	}
}

// maxServers bounds the tool servers of one sidecar.
const maxServers = 64

// group is a branch group; it is forgotten with its last member.
type group struct {
	GroupState
	members int
}

func (f *Fold) joinGroup(t *tx) {
	g := f.groups[t.Group]
	if g == nil {
		g = &group{GroupState: GroupState{ID: t.Group}}
		f.groups[t.Group] = g
	}
	g.members++
}

// lostBranch: the group of a transaction has chosen another one.
func (f *Fold) lostBranch(t *tx) bool {
	if t.Group == "" || t.Free {
		return false
	}
	w := f.groups[t.Group].Winner
	return w != "" && w != t.ID
}

// applySelect chooses the winner of a branch group; the first choice stands, and every undecided loser aborts.
func (f *Fold) applySelect(in *Intent) {
	s := in.Select
	g := f.groups[s.Group]
	switch {
	case g == nil && in.Base < f.floor:
		f.refuse(in, nil, finding{code: CodeTooOld, detail: "the branch group is not remembered"})
		return
	case g != nil && g.Winner != "":
		f.repeat(g.Seq)
		return
	case g == nil:
		g = &group{GroupState: GroupState{ID: s.Group}}
		f.groups[s.Group] = g
	}
	g.Winner = s.Winner
	f.chosen += g.bytes()
	g.Seq = f.emit(Outcome{Kind: OutcomeSelected, Agent: in.Agent, Incarnation: in.Incarnation, Group: s.Group,
		Winner: s.Winner})
	for _, t := range f.inOrder(func(t *tx) bool { return t.Group == s.Group && t.undecided() }) {
		if t.ID == s.Winner {
			f.wakeTx(t)
		} else if !t.Free {
			f.abort(t, finding{code: CodeLostBranch, detail: "another branch of the group was chosen",
				moved: Writer{Seq: g.Seq, Tx: s.Winner}})
		}
	}
}
