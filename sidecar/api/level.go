package api

// Level answers GET /v1/workspaces/{workspace}/level: what the last operations of the workspace leave of the chain L0
// to L4. Least and Most differ where something is possible or cannot be decided.
type Level struct {
	Workspace    string           `json:"workspace"`
	Seq          uint64           `json:"seq"`          // of the last decision that was judged; 0: none
	Since        uint64           `json:"since"`        // operations committed at or before it are not held
	Window       int              `json:"window"`       // operations that are held at most
	Operations   int              `json:"operations"`   // that are held
	Aborted      int              `json:"aborted"`      // of these: they are judged as predecessors only
	Spanning     int              `json:"spanning"`     // of these: what began at or before Since: it may have met others
	OwnOverlaps  int              `json:"own_overlaps"` // what would be A1 but that one agent did both
	Least        int              `json:"least"`        // 0 to 4
	Most         int              `json:"most"`         // 0 to 4
	PointLeast   string           `json:"point_least"`  // which anomalies there are none of, such as {A1,A3}
	PointMost    string           `json:"point_most"`   //
	Serializable bool             `json:"serializable"` // some serial order explains the operations
	Kinds        []LevelCount     `json:"kinds"`
	Undecided    []LevelUndecided `json:"undecided"`
}

// AnomaliesOff is the problem of a request that needs the processor of anomalies where there is none.
func AnomaliesOff() *Problem {
	return Problemf(CodeAnomaliesOff, "no processor looks for anomalies in this installation: start hence streams "+
		"--anomalies, or hence dev --anomalies")
}

// LevelCount is how often a kind of anomaly is found among the operations of a level.
type LevelCount struct {
	Kind     string `json:"kind"`
	Title    string `json:"title"`
	Certain  int    `json:"certain"`
	Possible int    `json:"possible"`
}

// LevelUndecided is what the operations of a level cannot show.
type LevelUndecided struct {
	Kind  string `json:"kind"`
	Count int    `json:"count"`
	Why   string `json:"why"`
}
