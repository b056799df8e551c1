package sidecar

import "time"

// The shortest and the longest pause between two tries of something.
const (
	pauseLeast = 20 * time.Millisecond
	pauseMost  = 500 * time.Millisecond
)
