// Package redis keeps shards as those of S-Bus in a Redis server, over its plain text protocol: what a commit rests on
// is watched from the comparison to the write.
package redis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// patience bounds an exchange with the server, lapse is how long keys stay, so that none has to be deleted.
const (
	patience = 30 * time.Second
	lapse    = "3600"
)

// Shards are shards under keys of their own, each its version, a line end, and its content. The caller must Close
// them.
type Shards struct {
	prefix string
	free   chan *conn
	all    []*conn
}

// Address is where a URL's server listens, HOST:PORT.
func Address(at string) (string, error) {
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "redis" || u.Port() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" {
		return "", errors.New("the address of Redis is not redis://host:port")
	}
	return u.Host, nil
}

// Open makes so many connections.
func Open(ctx context.Context, at, name string, conns int) (*Shards, error) {
	address, err := Address(at)
	if err != nil {
		return nil, err
	}
	s := &Shards{prefix: name + ":", free: make(chan *conn, conns)}
	for range conns {
		var dialer net.Dialer
		socket, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("connect to Redis: %w", err)
		}
		c := &conn{Conn: socket, in: bufio.NewReader(socket)}
		s.all = append(s.all, c)
		s.free <- c
	}
	return s, nil
}

// Close ends the connections.
func (s *Shards) Close() {
	for _, c := range s.all {
		_ = c.Close()
	}
}

// Settings are what the server says of how it makes a write durable.
func (s *Shards) Settings(ctx context.Context) (text string, err error) {
	err = s.with(ctx, "ask Redis for its settings", func(c *conn) error {
		said, err := c.do("INFO", "server")
		if err != nil {
			return err
		}
		_, version, _ := strings.Cut(said.(string), "redis_version:")
		version, _, _ = strings.Cut(version, "\r")
		text = "Redis " + version
		for _, name := range []string{"appendonly", "appendfsync"} {
			pair, err := c.do("CONFIG", "GET", name)
			if err != nil {
				return err
			}
			if list, ok := pair.([]any); ok && len(list) == 2 {
				text += fmt.Sprintf(", %s=%v", name, list[1])
			}
		}
		return nil
	})
	return text, err
}

// with does something with a connection that is free.
func (s *Shards) with(ctx context.Context, what string, do func(*conn) error) error {
	var c *conn
	select {
	case c = <-s.free:
	case <-ctx.Done():
		return fmt.Errorf("%s: wait for a connection: %w", what, context.Cause(ctx))
	}
	defer func() { s.free <- c }()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if err := do(c); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Create makes a shard at version 0, if it is not there.
func (s *Shards) Create(ctx context.Context, key, content string) (made bool, err error) {
	err = s.with(ctx, "create "+key, func(c *conn) error {
		said, err := c.do("SET", s.prefix+key, "0\n"+content, "NX", "EX", lapse)
		made = said != nil
		return err
	})
	return made, err
}

// Read reads a shard.
func (s *Shards) Read(ctx context.Context, key string) (version uint64, content string, there bool, err error) {
	err = s.with(ctx, "read "+key, func(c *conn) error {
		said, err := c.do("GET", s.prefix+key)
		if text, is := said.(string); err == nil && is {
			there = true
			version, content, err = cut(text)
		}
		return err
	})
	return version, content, there, err
}

// cut is the version and the content of what is under a key.
func cut(text string) (version uint64, content string, err error) {
	digits, content, _ := strings.Cut(text, "\n")
	if version, err = strconv.ParseUint(digits, 10, 64); err != nil {
		return 0, "", fmt.Errorf("a key has no version: %w", err)
	}
	return version, content, nil
}

// Commit writes a shard, whose version becomes one more than at, if refuses has nothing against the versions that it
// and others have; what it says else is returned. Where one of them is written in between, all are compared again.
func (s *Shards) Commit(ctx context.Context, key, text string, at uint64, others []string,
	refuses func(there map[string]uint64) string,
) (version uint64, refused string, err error) {
	err = s.with(ctx, "commit "+key, func(c *conn) error {
		for done := any(nil); done == nil; {
			there, err := s.watch(c, append(others, key))
			if err != nil {
				return err
			}
			if refused = refuses(there); refused != "" {
				_, err := c.do("UNWATCH")
				return err
			}
			if _, err := c.do("MULTI"); err != nil {
				return err
			}
			if _, err := c.do("SET", s.prefix+key, fmt.Sprint(at+1)+"\n"+text, "KEEPTTL"); err != nil {
				return err
			}
			if done, err = c.do("EXEC"); err != nil {
				return err
			}
		}
		return nil
	})
	return at + 1, refused, err
}

// watch are the versions of keys, which are watched until the next EXEC.
func (s *Shards) watch(c *conn, keys []string) (map[string]uint64, error) {
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = s.prefix + key
	}
	if _, err := c.do(append([]string{"WATCH"}, names...)...); err != nil {
		return nil, err
	}
	said, err := c.do(append([]string{"MGET"}, names...)...)
	if err != nil {
		return nil, err
	}
	there := map[string]uint64{}
	for i, one := range said.([]any) {
		if text, is := one.(string); is {
			if there[keys[i]], _, err = cut(text); err != nil {
				return nil, err
			}
		}
	}
	return there, nil
}

// conn is a connection.
type conn struct {
	net.Conn
	in *bufio.Reader
}

// do sends a command and reads its answer: nil, a string, or a list of both.
func (c *conn) do(words ...string) (any, error) {
	text := fmt.Sprintf("*%d\r\n", len(words))
	for _, word := range words {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := io.WriteString(c, text); err != nil {
		return nil, fmt.Errorf("write to Redis: %w", err)
	}
	return c.answer()
}

func (c *conn) answer() (any, error) {
	line, err := c.in.ReadString('\n')
	if line = strings.TrimSuffix(line, "\r\n"); err != nil || line == "" {
		return nil, fmt.Errorf("read the answer of Redis: %w", err)
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+', ':':
		return rest, nil
	case '-':
		return nil, errors.New("redis answers " + rest)
	}
	n, err := strconv.Atoi(rest)
	if err != nil || kind != '$' && kind != '*' {
		return nil, fmt.Errorf("redis answers %.40q", line)
	}
	if n < 0 {
		return nil, nil
	}
	if kind == '*' {
		list := make([]any, n)
		for i := range list {
			if list[i], err = c.answer(); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	text := make([]byte, n+2)
	if _, err := io.ReadFull(c.in, text); err != nil {
		return nil, fmt.Errorf("read the answer of Redis: %w", err)
	}
	return string(text[:n]), nil
}
