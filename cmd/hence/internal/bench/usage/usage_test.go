package usage

import (
	"net"
	"os"
	"os/exec"
	"testing"
	"time"
)

// The process that listens on a port is found by it, and one of another machine is not guessed.
func TestListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := Listener(l.Addr().String())
	if err != nil || pid != int32(os.Getpid()) {
		t.Errorf("process %d, %v, want this one, %d", pid, err, os.Getpid())
	}
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if pid, err := Listener(conn.LocalAddr().String()); err == nil {
		t.Errorf("process %d is said to listen on the port of a connection that it made", pid)
	}
	_ = conn.Close()
	_ = l.Close()
	if pid, err := Listener(l.Addr().String()); err == nil {
		t.Errorf("process %d is said to listen on a closed port", pid)
	}
	for _, address := range []string{"10.1.2.3:9092", "kafka-1:9092", "nonsense", "127.0.0.1:kafka"} {
		if pid, err := Listener(address); err == nil {
			t.Errorf("%s is said to be process %d", address, pid)
		}
	}
}

// What a process uses between two looks is counted, with what it used before taken off.
func TestOf(t *testing.T) {
	self := int32(os.Getpid())
	before, err := Of(self)
	if err != nil {
		t.Fatal(err)
	}
	for begin := before[self]; ; {
		after, err := Of(self)
		if err != nil {
			t.Fatal(err)
		}
		if after[self] > begin { // this loop itself uses some
			if used := after.Since(before); used <= 0 || used > time.Minute {
				t.Errorf("%s were used", used)
			}
			break
		}
	}
	if sum := (CPU{1: 5, 2: 3}).Since(CPU{1: 2, 3: 9}); sum != 6 { // 2 has begun since, 3 has ended
		t.Errorf("%d ns were used, want 6", sum)
	}
	if m, err := Memory(self); err != nil || m < 1<<20 {
		t.Errorf("%d bytes, %v", m, err)
	}
	if _, err := Of(1 << 30); err == nil {
		t.Error("a process that is not there has used something")
	}
}

// A child is counted with its parent where that is asked for, and only there: the children of a benchmark are what it
// measures.
func TestOfFamily(t *testing.T) {
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = in.Close()
		_ = child.Wait()
	}()
	self, pid := int32(os.Getpid()), int32(child.Process.Pid)
	alone, err := Of(self)
	if _, ok := alone[pid]; ok || err != nil {
		t.Errorf("%v, %v: the child %d is counted", alone, err, pid)
	}
	both, err := OfFamily(self)
	if _, ok := both[pid]; !ok || err != nil {
		t.Errorf("%v, %v: the child %d is not counted", both, err, pid)
	}
}
