package anomaly

// Kind is what was found.
type Kind uint8

// The kinds. A1, A2, A3 and A6 span the sixteen points; the others stand beside these.
const (
	A1            Kind = iota + 1 // stale generation: what was read was overwritten by another agent before the commit
	A2                            // phantom tool: planned, registered at the read, not at the commit
	A3                            // causal cascade: it rests on an operation that was aborted
	A6                            // its effects left in another order than they were issued in
	A4                            // split view: two replicas gave different values of a cell
	A4v                           // split view at one version: two replicas gave different values of one version
	LostUpdate                    // it overwrote a version that it had not read with what it made of an older one
	WriteSkew                     // two operations each overwrote what the other had read
	Cycle                         // operations depend on each other in a circle: no serial order explains them
	NullOverwrite                 // it deleted a value that it had not read
	Effects                       // effects are missing or extra among those that happened
	Scar                          // κ-scar: it was committed before an operation that it rests on
)

// Kinds are all kinds, in the order of reports.
func Kinds() []Kind {
	return []Kind{A1, A2, A3, A6, A4, A4v, LostUpdate, WriteSkew, Cycle, NullOverwrite, Effects, Scar}
}

// String is the kind's name in reports.
func (k Kind) String() string {
	switch k {
	case A1:
		return "A1"
	case A2:
		return "A2"
	case A3:
		return "A3"
	case A6:
		return "A6"
	case A4:
		return "A4"
	case A4v:
		return "A4v"
	case LostUpdate:
		return "lost-update"
	case WriteSkew:
		return "write-skew"
	case Cycle:
		return "cycle"
	case NullOverwrite:
		return "null-overwrite"
	case Effects:
		return "effects"
	case Scar:
		return "scar"
	}
	return "unknown"
}

// Title is the kind in words.
func (k Kind) Title() string {
	switch k {
	case A1:
		return "stale generation"
	case A2:
		return "phantom tool"
	case A3:
		return "causal cascade"
	case A6:
		return "effect reordering"
	case A4:
		return "split view by lag"
	case A4v:
		return "split view at one version"
	case LostUpdate:
		return "lost update"
	case WriteSkew:
		return "write skew"
	case Cycle:
		return "not serializable"
	case NullOverwrite:
		return "null overwrite"
	case Effects:
		return "missing or extra effect"
	case Scar:
		return "commit order against causality"
	}
	return "unknown"
}

// Finding is one anomaly with its witness. Records are indexes of operations in the order of Add.
//
//	A1           {reader, first overwriting writer}, one for each reader and cell; Count writers in all
//	A2, A6       {operation}
//	A3           {operation, aborted predecessor}, one for each operation: one that preds names, with Count such ones
//	             in all, else one that it rests on through others. Without provenance
//	             {reader} and the cell, one for each reader and cell
//	A4, A4v      {reader, reader}, one for each cell, and version
//	LostUpdate   {operation, writer that it overwrote}, one for each operation and cell
//	WriteSkew    {operation, operation}, Cell is what the first read and Cell2 what the second read
//	Cycle        all of a shortest cycle, one for each set of operations that depend on each other; Count of these
//	NullOverwrite {operation, writer of the deleted value}
//	Effects      {operation}
//	Scar         {operation, what it rests on}, one for each operation: one that preds names, with Count such ones in
//	             all, else the latest that it rests on by reads or through others
type Finding struct {
	Kind    Kind
	Certain bool // false: the history does not exclude it, and cannot prove it
	Records []uint32
	Cell    string
	Cell2   string
	Count   int
	Edges   []Edge // of a cycle: from Records[i] to Records[i+1], the last to the first
	// how it was found, for the sentence
	read, wrote uint32
	how         how
}

// Edge is a dependency of one operation on another.
type Edge struct {
	Kind EdgeKind
	Cell string
}

// EdgeKind is what a dependency comes from.
type EdgeKind uint8

// The dependencies.
const (
	WW EdgeKind = iota + 1 // the second overwrote a version of the first
	WR                     // the second read a version of the first
	RW                     // the second overwrote the version that the first had read
)

// String is the name of the dependency.
func (k EdgeKind) String() string {
	switch k {
	case WW:
		return "ww"
	case WR:
		return "wr"
	}
	return "rw"
}

// Class names a cycle as the literature does: G0 has only ww, G1c no rw, G-single one rw, G2 more. It is empty for
// other findings.
func (f *Finding) Class() string {
	if f.Kind != Cycle {
		return ""
	}
	wr, rw := 0, 0
	for _, e := range f.Edges {
		switch e.Kind {
		case WR:
			wr++
		case RW:
			rw++
		}
	}
	switch {
	case rw > 1:
		return "G2"
	case rw == 1:
		return "G-single"
	case wr > 0:
		return "G1c"
	}
	return "G0"
}

// how says which of a kind's predicates held.
type how uint8

const (
	byDefinition how = iota
	bySignature      // A2: the tool is there, under another signature
	byUse            // A2: the plan was not carried out, and the registry of the commit is unknown
	byOthers         // A3, scar: not named in preds, and rested on through others
	byResidue        // A3: no standing operation wrote what was read
)

// reason is why something is not decided.
type reason uint8

const (
	noValueRead reason = iota + 1
	noPlan
	noRegistryRead
	noRegistryWrite
	noOrder
	noProvenance
	noReplica
	noValueSeen
	noVersion
	noProducer
	predUnknown
	cutResidue
	cutRead
	cutWrite
	cutPred
	cutAborted
	cutEdge
)

func (r reason) kind() Kind {
	switch r {
	case noValueRead, cutRead, cutWrite:
		return A1
	case noPlan, noRegistryRead, noRegistryWrite:
		return A2
	case noOrder:
		return A6
	case noProvenance, predUnknown, cutResidue, cutPred, cutAborted:
		return A3
	case noReplica, noValueSeen:
		return A4
	case noVersion:
		return A4v
	}
	return Cycle
}

// blocks reports whether the level of the history depends on what is undecided.
func (r reason) blocks() bool {
	switch r {
	case noValueRead, noPlan, noRegistryRead, noRegistryWrite, noOrder, cutResidue, noProvenance, cutRead,
		cutWrite, cutPred, cutAborted:
		return true
	}
	return false
}

// String says why, as "12 " + String is a sentence.
func (r reason) String() string {
	switch r {
	case noValueRead:
		return "reads were overwritten in between, and what was read or written is not recorded"
	case noPlan:
		return "operations do not say whether a tool was planned (planned_tool)"
	case noRegistryRead:
		return "operations planned a tool and do not say which tools they saw (tools_visible_at_read)"
	case noRegistryWrite:
		return "operations planned a tool and say neither which tools there were at the commit nor which were used " +
			"(tools_visible_at_write, tools_used)"
	case noOrder:
		return "operations do not say in which order their effects were issued and happened (io, co)"
	case noProvenance:
		return "reads without provenance (preds) whose value, or one that was written to the cell, is not recorded"
	case noReplica:
		return "reads do not say which replica answered (replica)"
	case noValueSeen:
		return "reads of a replica do not say which value it gave (read_values)"
	case noVersion:
		return "reads do not say which version they got (version)"
	case noProducer:
		return "reads differ from the latest version that was visible, or one of both values is not recorded: no " +
			"dependency is drawn from them"
	case predUnknown:
		return "predecessors are in none of the records: they are taken to be forgotten, and to stand"
	case cutResidue:
		return "reads without provenance may rest on what came before the cut"
	case cutRead:
		return "reads began before the cut: what was written after them and before it is not seen"
	case cutWrite:
		return "operations wrote before the cut: whom they overtook there is not seen"
	case cutPred:
		return "predecessors are in none of the window's records: whether they were aborted is not known"
	case cutAborted:
		return "aborted operations came after a cut: what may rest on them before it is not seen"
	case cutEdge:
		return "reads of what was there before the cut: no dependency on its writer is drawn from them"
	}
	return "unknown"
}

// Undecided is something that the history cannot show: it is neither found nor excluded.
type Undecided struct {
	Kind  Kind
	Count int
	Why   string
	Open  bool // the level depends on it
}

func (h *History) undecidedIf(is bool, why reason) {
	if is {
		h.undecided[why]++
	}
}
