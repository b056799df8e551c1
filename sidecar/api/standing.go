package api

// Standing says how an agent of a sidecar stands.
type Standing struct {
	Agent       string
	Parts       map[string]error // what keeps its session and its journal from being served; nil: nothing
	Record      error            // why the journal did not take the last record; nil: it did
	Incarnation uint64           // of its live session; 0: none
	Refused     error            // why the log does not let it in; nil: it has not. It is asked again by itself
	// Displaced is an incarnation of another sidecar of this agent that had a lease until this one joined; 0: there was
	// none. One that left its journal here is no other.
	Displaced uint64
	Owed      int // decisions that it waits for, and settlements that are its own to make
}

// Serves reports whether nothing keeps the agent from being served.
func (s *Standing) Serves() bool {
	for _, err := range s.Parts {
		if err != nil {
			return false
		}
	}
	return true
}
