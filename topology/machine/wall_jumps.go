//go:build failpoints

package machine

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
	"unsafe"
)

// envWall has the wall clock of a process jump: "700ms,-49h" after so long by so much, in whole seconds.
const envWall = "HENCE_FAILPOINT_WALL"

type jump struct {
	at time.Time
	by time.Duration
	on sync.Once
}

// planned is read with the first time that is asked for.
var planned = sync.OnceValue(func() *jump {
	text := os.Getenv(envWall)
	if text == "" {
		return nil
	}
	after, by, _ := strings.Cut(text, ",")
	wait, err := time.ParseDuration(after)
	j := &jump{at: time.Now().Add(wait)}
	if err == nil {
		j.by, err = time.ParseDuration(by)
	}
	if err != nil {
		panic(fmt.Sprintf("%s=%q: give two durations with a comma: %v", envWall, text, err))
	}
	return j
})

func now() time.Time {
	t, j := time.Now(), planned()
	if j == nil || t.Before(j.at) {
		return t
	}
	j.on.Do(func() { fmt.Fprintf(os.Stderr, "the wall clock jumps by %v\n", j.by) })
	return jumped(t, j.by)
}

// jumped is another date with the same monotonic reading, as after the clock was set. No function of package time
// makes one: the seconds of the date are the bits from 30 on of its first word, as long as it has such a reading.
func jumped(t time.Time, by time.Duration) time.Time {
	word := (*uint64)(unsafe.Pointer(&t))
	*word += uint64(int64(by/time.Second)) << 30
	return t
}
