package gate

// Vocabulary says how texts to and from a model name shards.
type Vocabulary struct {
	Enforce bool // what an answer uses is a read, that a commit may be refused for; else it is only noted
	Terms   []Term
}

// Term are names of one shard; with a "*" in both, of all that have a word of letters, digits, "_", "-" and "." there.
type Term struct {
	Scope string
	Names []string // texts, in any case
}
