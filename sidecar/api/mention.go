package api

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
	Read      int // by itself
	Mentioned int // not, but the request named it
	Answered  int // neither: only the answer names it
	Missing   int // it does not exist
}
