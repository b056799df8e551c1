package devfile

import (
	"os"

	"github.com/hence-dev/hence/topology/machine"
)

// Machine is where a "hence dev" runs: processes of one machine reach each other at 127.0.0.1.
type Machine struct {
	Host    string `json:"host"`
	Boot    string `json:"boot,omitempty"`    // of the running system, from its start to its end
	Network string `json:"network,omitempty"` // its namespace, where the system has such
}

// here is where this process runs. What the system does not tell stays empty.
func here() Machine {
	host, _ := os.Hostname()
	network, _ := os.Readlink("/proc/self/ns/net")
	return Machine{Host: host, Boot: machine.Boot(), Network: network}
}

// is says whether both reach each other at 127.0.0.1. A host's name changes with its network, so it counts only where
// the system has no name for its run.
func (m Machine) is(other Machine) bool {
	return m.Boot == other.Boot && m.Network == other.Network && (m.Boot != "" || m.Host != "" && m.Host == other.Host)
}

// locksWith says whether a lock of a process there is seen here. One that is not seen says nothing else: a folder on
// the network may keep locks to each machine. A file that names no machine was cut off while it was written.
func (m Machine) locksWith(other Machine) bool {
	return m == Machine{} || m.Host == other.Host || m.Boot != "" && m.Boot == other.Boot
}
