// Package process starts a program as a shell would and ends it surely: in a process group of its own, each signal
// passed on once, the terminal handed over and taken back, and the whole group killed when it does not end in time.
package process
