package api

// ShardClasses are the classes of the shards that commits of S-Bus clients came to at one node.
type ShardClasses struct {
	Dedicated   int          `json:"dedicated"`
	Commutative int          `json:"contended_commutative"`
	Contended   int          `json:"contended_noncommutative"`
	Most        []ShardClass `json:"most_contended"` // those that met most, the first ones
}

// ShardClass is one contended shard, by its recent commits.
type ShardClass struct {
	Key      string  `json:"key"`
	Class    string  `json:"class"`
	Attempts float64 `json:"attempts"`
	Met      float64 `json:"met"`    // found another version than they expected
	Hinted   float64 `json:"hinted"` // said that they only add
	Honest   float64 `json:"honest"` // of those whose base is remembered
}
