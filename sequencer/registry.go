package sequencer

import (
	"cmp"
	"crypto/sha256"
	"slices"
)

// catalogues keeps each set of tools once, however many sidecars announce it.
type catalogues struct {
	byHash map[Hash]*catalogue // Invariant: has what a present server of a live sidecar names, and nothing else
	bytes  int                 // Invariant: the sum over byHash
}

type catalogue struct {
	Catalogue
	uses int // Invariant: how many servers of live sidecars name it, at least one
}

func newCatalogues() catalogues { return catalogues{byHash: map[Hash]*catalogue{}} }

// sortedTools is a catalogue as it is kept: by name, each once.
func sortedTools(tools []Tool) []Tool {
	tools = slices.Clone(tools)
	slices.SortStableFunc(tools, func(a, b Tool) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Signature, b.Signature))
	})
	return slices.CompactFunc(tools, func(a, b Tool) bool { return a.Name == b.Name })
}

func (c *catalogues) keep(tools []Tool) Hash {
	tools = sortedTools(tools)
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
		// A late copy would bring back a catalogue that was replaced.
		return
	}
	if f.bounded() {
		f.registerBounded(sc, at, found, in)
		return
	}
	n := toolBytes(r.Tools)
	if n > int(f.rules.MaxBytes) || f.catalogues.bytes+n > f.openBudget()/2 || !found && len(sc.Servers) >= maxServers {
		// Catalogues take a quarter of what the workspace keeps: more would leave no place for transactions.
		f.refuse(in, nil, finding{code: CodeLimit, detail: "the catalogue is larger than the rules allow"})
		return
	}
	if !found {
		sc.Servers = slices.Insert(sc.Servers, at, ServerState{Server: r.Server})
		f.listed += sc.Servers[at].bytes()
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
	f.wakePins(in.Incarnation)
}

// wakePins looks again at the sealed transactions of a sidecar whose registry has changed.
func (f *Fold) wakePins(incarnation Seq) {
	for _, t := range f.inOrder(func(t *tx) bool {
		return t.Phase == PhaseSealed && t.Incarnation == incarnation && len(t.Seal.Pins) > 0
	}) {
		f.wakeTx(t)
	}
}

// registerBounded is applyRegister since logic 3. The registry fails closed: a withdrawal is never refused, a
// catalogue is measured once the one that it replaces is released, and what cannot be kept is absent. So no plan
// commits on a tool that its server no longer has.
func (f *Fold) registerBounded(sc *SidecarState, at int, found bool, in *Intent) {
	r, announced := in.Register, in.Kind == IntentRegister
	o := Outcome{Kind: OutcomeUnregistered, Agent: in.Agent, Incarnation: in.Incarnation, Server: r.Server}
	limit := func(detail string) {
		o.Kind, o.Code, o.Detail = OutcomeRefused, CodeLimit, detail
	}
	switch {
	case !found && (sc.Shut || !f.lists(sc, r.Server)):
		// Its generation cannot be kept, so a late copy could not be told from a new announcement: the sidecar
		// registers no further servers until it joins again.
		sc.Shut = true
		if announced {
			limit("the sidecar's tool servers are more than the rules allow: none of this one's tools is registered")
		}
		f.emit(o)
		return
	case !found:
		sc.Servers = slices.Insert(sc.Servers, at, ServerState{Server: r.Server})
		f.listed += sc.Servers[at].bytes()
	}
	s := &sc.Servers[at]
	f.catalogues.release(s.Catalogue)
	*s = ServerState{Server: r.Server, Generation: r.Generation}
	switch {
	case announced && f.fits(r.Tools):
		s.Present, s.Catalogue = true, f.catalogues.keep(r.Tools)
		o.Kind, o.Catalogue = OutcomeRegistered, s.Catalogue
	case announced:
		limit("the catalogue is larger than the rules allow: none of the server's tools is registered")
	}
	s.Seq = f.emit(o)
	f.wakePins(in.Incarnation)
}

// lists reports whether a further server's name finds room.
func (f *Fold) lists(sc *SidecarState, server string) bool {
	return len(sc.Servers) < maxServers && len(server) <= maxNameBytes &&
		f.catalogues.bytes+f.listed+ServerState{Server: server}.bytes() <= f.openBudget()/2
}

// fits reports whether a catalogue finds room; one that is kept already needs none.
func (f *Fold) fits(tools []Tool) bool {
	sorted := sortedTools(tools)
	if f.catalogues.byHash[Catalogue{Tools: sorted}.hash()] != nil {
		// Kept once however many announce it.
		return true
	}
	n := toolBytes(sorted)
	return n <= int(f.rules.MaxBytes) && f.catalogues.bytes+f.listed+n <= f.openBudget()/2
}

// bytes estimates what the server's entry keeps beside its catalogue.
func (s ServerState) bytes() int { return 56 + len(s.Server) }

// maxServers bounds the tool servers of one sidecar.
const maxServers = 64

// group is a branch group; it is forgotten with its last member.
// Invariant: Winner never changes once it is set: a loser that was aborted for it cannot come back.
type group struct {
	GroupState
	members int // Invariant: how many of Fold.txs name the group
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

// lostTo refuses a branch because its group has chosen another one.
func (f *Fold) lostTo(g *group) finding {
	why := finding{code: CodeLostBranch, detail: "another branch of the group was chosen",
		moved: Writer{Seq: g.Seq, Tx: g.Winner}}
	if f.bounded() {
		why.detail = "another branch of the group " + g.ID + " was chosen"
	}
	return why
}

// applySelect chooses the winner of a branch group; the first choice stands, and every undecided loser aborts.
func (f *Fold) applySelect(in *Intent) {
	s := in.Select
	g := f.groups[s.Group]
	switch {
	case f.nameTooLong(s.Group, string(s.Winner)).found():
		// Each decision of the group repeats both names.
		f.refuse(in, nil, f.nameTooLong(s.Group, string(s.Winner)))
		return
	case g == nil && in.Base < f.floor:
		// It may be a late copy for a group that is forgotten, and would choose for one that comes under the same name.
		f.refuse(in, nil, finding{code: CodeTooOld, detail: "the branch group is not remembered"})
		return
	case g != nil && g.Winner != "":
		// The first choice stands: its losers are aborted and told so.
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
			f.abort(t, f.lostTo(g))
		}
	}
}
