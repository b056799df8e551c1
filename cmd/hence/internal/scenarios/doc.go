// Package scenarios has workloads of agents as lists of steps, and runs them under the runtimes to compare with: the
// same steps in the same order, so that what differs is the runtime.
package scenarios
