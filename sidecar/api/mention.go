package api

// Told is whom a model tells something: one of an agent's conversations, or a reader.
type Told struct {
	Session string
	Reader  string // empty: the conversation is told
}

// Mention is what a request to a model names, before it leaves.
type Mention struct {
	ID    string
	View  uint64 // that the request left at: what the model is told is not newer
	Fresh int    // shards that the conversation has not read itself
	Known int    // those that it has
	// Missing are names of shards that do not exist.
	Missing int
}

// Relied counts the shards that a model's answer uses by how the conversation had read them.
type Relied struct {
	Step      int // by itself, since its request before this one
	Earlier   int // by itself, before that
	Mentioned int // not, but the request named it
	Answered  int // neither: only the answer names it
	Missing   int // it does not exist
}
