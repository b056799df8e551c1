package runtimes

// vanilla validates nothing: the last writer wins. It excludes nothing and lets all four through. It is what agent
// frameworks do with state that their agents share.
type vanilla struct{ passive }
