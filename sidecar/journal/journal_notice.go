package journal

// Notice is the 410 that every conversation of an agent is owed once its reads are lost: which ones there were is lost
// with them, so one that began later is told as well. The zero value owes nothing.
type Notice struct {
	Owed  bool
	Told  map[string]bool // by conversation; false: it may not have the answer, and the journal does not have it
	Order []string        // of told, oldest first
}

// KeptTold is how many conversations are known to have been told. The oldest beyond is told again, which costs it a
// further read; silence could cost it a commit on what it does not know to be lost.
const KeptTold = 4096

// Owe begins anew: more is lost, also to those that were told.
func (n *Notice) Owe() { *n = Notice{Owed: true} }

// Tell notes that a conversation is told, and whether it is known to have heard it.
func (n *Notice) Tell(talk string, heard bool) {
	if n.Told == nil {
		n.Told = map[string]bool{}
	}
	if _, known := n.Told[talk]; !known {
		n.Order = append(n.Order, talk)
	}
	n.Told[talk] = heard
	if len(n.Order) > KeptTold {
		delete(n.Told, n.Order[0])
		n.Order = n.Order[1:]
	}
}

// UntoldRecord says that every conversation is owed a 410; with names, that these have had it, and others are owed it
// as before. An older release says so with Owed false, of the only conversation that it had.
type UntoldRecord struct {
	Owed bool
	Told []string `json:",omitempty"`
}

// Apply takes a record of the journal. One without names is of a further loss.
func (n *Notice) Apply(r UntoldRecord) {
	if len(r.Told) == 0 {
		*n = Notice{}
	}
	n.Owed = r.Owed
	for _, talk := range r.Told {
		n.Tell(talk, true)
	}
}

// Record is what the journal has to say of it.
func (n *Notice) Record() UntoldRecord { return UntoldRecord{Owed: n.Owed, Told: n.Order} }
