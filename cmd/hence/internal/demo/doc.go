// Package demo runs Hence's main job and checks itself: agents settle retail tasks as transactions over one store,
// each through a sidecar over HTTP, some of them always wanting the same order.
//
// Every agent keeps its own records of what it read, what it wrote and what it was told. The verdict is made from
// these records alone and from the decision log as a plain consumer reads it back: no update was lost, nothing that
// an agent was told of is missing, and the committed tasks, run alone one after the other in commit order, leave
// byte for byte what the store holds in the end. The fold that took the decisions is not asked.
//
// The pieces: [Run] is one run over the processors and sidecars of package cluster; agent.go does a task until it is
// settled; check.go draws the verdict; report.go and progress.go show it.
package demo
