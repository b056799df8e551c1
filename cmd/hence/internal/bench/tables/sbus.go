package tables

// Ground starts what rows need that run Hence itself.
type Ground interface{}

func busRuns() map[string]run { return map[string]run{} }
