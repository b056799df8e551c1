package tables

func atomixRuns() map[string]run { return map[string]run{} }
