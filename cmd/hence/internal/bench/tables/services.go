package tables

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/smtp"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hence-dev/hence/gate/sinks"
	"github.com/hence-dev/hence/sidecar/client"
	"github.com/hence-dev/hence/topology/pause"
)

// entry is what a service is asked for.
type entry struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
	Ms    string `json:"ms,omitempty"` // how long that takes
}

// rows is a service that keeps a value for each name, and all values in the order in which they came. What comes under
// a key happens once.
type rows struct {
	mu   sync.Mutex
	now  map[string]string
	came map[string][]string
	keys map[string]bool
	// stops, where there is one of a name, are asked before and after a put. Where one says yes the connection breaks.
	stops map[string]func(after bool) bool
}

// ServeHTTP takes one request.
func (s *rows) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if name, reads := strings.CutPrefix(r.URL.Path, "/rows/"); reads {
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = json.NewEncoder(w).Encode(map[string]string{"value": s.now[name]})
		return
	}
	var in entry
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if r.URL.Path == "/refuse" {
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	if pause.Sleep(r.Context(), time.Duration(atoi(in.Ms))*time.Millisecond) != nil {
		return // the sender has gone
	}
	s.mu.Lock()
	stop := s.stops[in.Name]
	s.mu.Unlock()
	if stop != nil && stop(false) {
		panic(http.ErrAbortHandler) // breaks the connection
	}
	if s.do(r.URL.Path, r.Header.Get("Idempotency-Key"), in) {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	if stop != nil && stop(true) {
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write([]byte("{}"))
}

// do does what is asked for, and says whether it was done before.
func (s *rows) do(path, key string, in entry) (replayed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key != "" && s.keys[key] {
		return true
	}
	s.keys[key] = key != ""
	switch path {
	case "/put":
		s.now[in.Name] = in.Value
		s.came[in.Name] = append(s.came[in.Name], in.Value)
	case "/remove":
		delete(s.now, in.Name)
	}
	return false
}

// values are all that were put under a name, in order.
func (s *rows) values(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.came[name])
}

// has says whether there is a row.
func (s *rows) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, has := s.now[name]
	return has
}

// breakAt sets what breaks the connections of puts of a name.
func (s *rows) breakAt(name string, stop func(after bool) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stops[name] = stop
}

// services are what agents act on beside Hence: rows over HTTP, a mailbox, and a folder.
type services struct {
	*rows
	at     string
	mail   *sinks.Mailbox
	folder string
	end    context.CancelFunc
}

// openServices starts services. The caller must close them.
func openServices(ctx context.Context) (s *services, err error) {
	s = &services{rows: &rows{now: map[string]string{}, came: map[string][]string{}, keys: map[string]bool{},
		stops: map[string]func(bool) bool{}}}
	ctx, s.end = context.WithCancel(ctx)
	if s.at, err = serve(ctx, s.rows); err == nil {
		s.mail, err = sinks.StartMailbox(sinks.MailboxOptions{})
	}
	if err == nil {
		s.folder, err = os.MkdirTemp("", "hence-tables-files-")
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("start the services of a row: %w", err)
	}
	return s, nil
}

// close ends them. What goes wrong then is of no matter to a row.
func (s *services) close() {
	s.end()
	if s.mail != nil {
		_ = s.mail.Close()
	}
	if s.folder != "" {
		_ = os.RemoveAll(s.folder)
	}
}

// policy are the tools over them.
func (s *services) policy() (string, error) {
	text, err := claims.ReadFile("claims/branch.yaml")
	if err != nil {
		return "", fmt.Errorf("read the policy of the services: %w", err)
	}
	u, err := url.Parse(s.at)
	if err != nil {
		return "", fmt.Errorf("read the address of the rows: %w", err)
	}
	return strings.NewReplacer("{{sink}}", u.Host, "{{mail}}", s.mail.Addr(), "{{files}}", s.folder).
		Replace(string(text)), nil
}

// onServices starts services, and Hence with their tools.
func (e *Env) onServices(ctx context.Context, agents int) (*services, Place, error) {
	s, err := openServices(ctx)
	if err != nil {
		return nil, Place{}, err
	}
	rules, err := s.policy()
	var place Place
	if err == nil {
		place, err = e.Ground.Workspace(ctx, 1, agents, rules)
	}
	if err != nil {
		s.close()
		return nil, Place{}, err
	}
	return s, place, nil
}

// post asks the rows directly, as an agent without Hence does.
func (s *services) post(ctx context.Context, verb, key string, in entry) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("write a request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.at+"/"+verb, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask %s: %w", verb, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s is answered %d", verb, resp.StatusCode)
	}
	return nil
}

// The kinds of sinks.
const (
	mailbox = iota
	files
	table
	buffer
	kinds
)

// kindNames are their names.
func kindNames() [kinds]string { return [kinds]string{"mailbox", "files", "rows", "buffer"} }

// direct are a call at a sink of a kind, and what takes it back; nil: nothing does.
func (s *services) direct(ctx context.Context, kind int, name string, m *memory) (do, undo func() error) {
	path := filepath.Join(s.folder, name)
	switch kind {
	case mailbox:
		return func() error {
			return smtp.SendMail(s.mail.Addr(), nil, "shop@example.com", []string{"customer@example.com"},
				[]byte("Subject: "+name+"\r\n\r\nchosen\r\n"))
		}, nil
	case files:
		return func() error { return os.WriteFile(path, []byte("chosen"), 0o600) }, func() error { return os.Remove(path) }
	case table:
		return func() error { return s.post(ctx, "put", "", entry{Name: name, Value: "chosen"}) },
			func() error { return s.post(ctx, "remove", "", entry{Name: name}) }
	}
	return func() error {
			m.write(map[string]string{name: "chosen"}, nil)
			return nil
		}, func() error {
			m.write(map[string]string{name: ""}, nil)
			return nil
		}
}

// left counts what names have at each kind of sink; buffered says whether a name is in the buffer.
func (s *services) left(names []string, buffered func(name string) (bool, error)) (n [kinds]int, err error) {
	sent := map[string]int{}
	for _, m := range s.mail.Mails() {
		sent[m.Subject]++
	}
	for _, name := range names {
		n[mailbox] += sent[name]
		if _, err := os.Stat(filepath.Join(s.folder, name)); err == nil {
			n[files]++
		} else if !errors.Is(err, os.ErrNotExist) {
			return n, fmt.Errorf("look for a file: %w", err)
		}
		if s.has(name) {
			n[table]++
		}
		is, err := buffered(name)
		if err != nil {
			return n, err
		}
		if is {
			n[buffer]++
		}
	}
	return n, nil
}

// untilFinal waits until a transaction is over: decided, and settled.
func untilFinal(ctx context.Context, tx *client.Tx) (d client.Decision, err error) {
	for err == nil && !d.Final {
		if err = ctx.Err(); err == nil {
			d, err = tx.Status(ctx, time.Second)
		}
	}
	return d, err
}

// shared spreads so much work over workers, each of which does its own one after the other.
func shared(workers, n int, f func(worker, i int) error) error {
	return together(workers, func(w int) error {
		for i := w; i < n; i += workers {
			if err := f(w, i); err != nil {
				return err
			}
		}
		return nil
	})
}

// Sidecars is a ground that also starts sidecars as processes of their own.
type Sidecars interface {
	// Sidecars serves a new workspace with a process for each node, until the context ends; they serve no S-Bus.
	Sidecars(ctx context.Context, nodes, agents int, policy string) (Place, []Side, error)
}

// Side is a sidecar in a process of its own. Whenever it ends it is started again, at its address and with its
// journal.
type Side interface {
	// Signal sends a signal to the process that runs now.
	Signal(s syscall.Signal) error
	// Back waits until another process serves than the one that was signalled last.
	Back(ctx context.Context) error
}
