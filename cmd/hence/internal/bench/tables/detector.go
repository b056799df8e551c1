package tables

func detectorRuns() map[string]run { return map[string]run{} }
