// Package usage says what processes of this machine have used: processor time and memory, of a process that is known
// by its id or by the port that it listens on.
package usage

import (
	"fmt"
	"maps"
	"net"
	"strconv"
	"time"

	sockets "github.com/shirou/gopsutil/v4/net"
	"github.com/shirou/gopsutil/v4/process"
)

// CPU is the processor time that processes have used since they began, by process id.
type CPU map[int32]time.Duration

// Of reads the processor time of processes, without that of their children.
func Of(pids ...int32) (CPU, error) {
	used := CPU{}
	for _, pid := range pids {
		p, err := process.NewProcess(pid)
		if err != nil {
			return nil, fmt.Errorf("look at process %d: %w", pid, err)
		}
		times, err := p.Times()
		if err != nil {
			return nil, fmt.Errorf("read the processor time of process %d: %w", pid, err)
		}
		used[pid] = time.Duration((times.User + times.System) * float64(time.Second))
	}
	return used, nil
}

// OfFamily is Of for a process and its children: PostgreSQL has one for each connection. What a child has used that
// has ended is not known any more.
func OfFamily(pid int32) (CPU, error) {
	used, err := Of(pid)
	if err != nil {
		return nil, err
	}
	p, err := process.NewProcess(pid)
	if err != nil {
		return used, nil // it has ended since
	}
	children, err := p.Children()
	if err != nil {
		return used, nil // it has none
	}
	for _, child := range children {
		if one, err := Of(child.Pid); err == nil {
			maps.Copy(used, one)
		}
	}
	return used, nil
}

// Since is what was used between an earlier look and this one.
func (c CPU) Since(before CPU) (sum time.Duration) {
	for pid, used := range c {
		sum += used - before[pid]
	}
	return sum
}

// Memory is the resident memory of a process, in bytes.
func Memory(pid int32) (uint64, error) {
	p, err := process.NewProcess(pid)
	if err != nil {
		return 0, fmt.Errorf("look at process %d: %w", pid, err)
	}
	info, err := p.MemoryInfo()
	if err != nil {
		return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	return info.RSS, nil
}

// Listener is the process of this machine that listens on the port of an address, HOST:PORT. An address of another
// machine, or a process that this user may not look at, is an error.
func Listener(address string) (int32, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0, fmt.Errorf("read the address %s: %w", address, err)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("read the port of %s: %w", address, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return 0, fmt.Errorf("%s is not surely on this machine: use a loopback address", address)
	}
	open, err := sockets.Connections("tcp")
	if err != nil {
		return 0, fmt.Errorf("list the sockets of this machine: %w", err)
	}
	for _, s := range open {
		if s.Status == "LISTEN" && s.Laddr.Port == uint32(number) && s.Pid != 0 {
			return s.Pid, nil
		}
	}
	return 0, fmt.Errorf("no process is seen to listen on %s", address)
}

// Descriptors is how many files and sockets a process has open.
func Descriptors(pid int32) (int, error) {
	p, err := process.NewProcess(pid)
	if err != nil {
		return 0, fmt.Errorf("look at process %d: %w", pid, err)
	}
	open, err := p.NumFDs()
	if err != nil {
		return 0, fmt.Errorf("count the open files of process %d: %w", pid, err)
	}
	return int(open), nil
}
