package view

import (
	"sync"

	"github.com/hence-dev/hence/sequencer"
)

// contents keeps fetched contents, the oldest ones are dropped first.
type contents struct {
	limit int64

	mu    sync.Mutex
	size  int64
	bySum map[sequencer.Hash][]byte
	order []sequencer.Hash
}

func newContents(limit int64) *contents {
	return &contents{limit: limit, bySum: map[sequencer.Hash][]byte{}}
}

func (c *contents) Get(sum sequencer.Hash) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, ok := c.bySum[sum]
	return body, ok
}

func (c *contents) Put(sum sequencer.Hash, body []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.bySum[sum]; known {
		return
	}
	c.bySum[sum] = body
	c.order = append(c.order, sum)
	c.size += int64(len(body))
	for c.size > c.limit && len(c.order) > 1 {
		c.size -= int64(len(c.bySum[c.order[0]]))
		delete(c.bySum, c.order[0])
		c.order = c.order[1:]
	}
}
