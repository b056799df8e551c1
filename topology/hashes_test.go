package topology

func sampleStateHash() *StateHash {
	return &StateHash{Workspace: "default", Seq: 4096, Replica: "b", Log: "q0VnK2kqSFO0bq1mJ2dVCw", Offset: 5012,
		Hash: sum("state"), AtMs: sampleTime.UnixMilli(), Instance: "streams-b1"}
}

// sampleStateHashEvery is one of a writer that says how often it says so.
func sampleStateHashEvery() *StateHash {
	h := sampleStateHash()
	h.Every = 256
	return h
}
