package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hence-dev/hence/gate/child"
	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/sidecar/view"
)

// hooked is a footprint as the hook sees it.
type hooked struct {
	Workspace string         `json:"workspace"`
	Tx        string         `json:"tx"`
	Agent     string         `json:"agent"`
	Mode      string         `json:"mode"`
	Footprint string         `json:"footprint"` // the hash that the verdict is on
	Reads     []hookedRead   `json:"reads"`
	Effects   []hookedEffect `json:"effects"`
	Writes    []hookedWrite  `json:"writes"`
}

type hookedRead struct {
	Scope   string `json:"scope"`
	View    uint64 `json:"view"`
	Version uint64 `json:"version,omitempty"`
	Writer  string `json:"writer,omitempty"`
}

type hookedEffect struct {
	Index  uint32          `json:"index"`
	Tool   string          `json:"tool"`
	Class  string          `json:"class"`
	Key    string          `json:"key,omitempty"`
	Scopes []string        `json:"scopes"`
	Args   json.RawMessage `json:"args,omitempty"`
}

type hookedWrite struct {
	Scope         string  `json:"scope"`
	MediaType     string  `json:"media_type,omitempty"`
	Op            string  `json:"op,omitempty"` // append, add or union: the content is a delta
	Size          int64   `json:"size"`
	SHA256        string  `json:"sha256"`
	Content       *string `json:"content,omitempty"` // small ones
	ContentBase64 string  `json:"content_base64,omitempty"`
}

// hookedOf is what the hook is shown of a sealed transaction.
func (s *Agent) hookedOf(t *tx, seal *sequencer.Seal, footprint sequencer.Hash) *hooked {
	out := &hooked{Workspace: s.workspace, Tx: string(t.id), Agent: s.agent, Mode: t.begin.Mode.String(),
		Footprint: hex.EncodeToString(footprint[:]), Reads: []hookedRead{}, Effects: []hookedEffect{},
		Writes: []hookedWrite{}}
	for _, r := range seal.Reads {
		out.Reads = append(out.Reads, hookedRead{string(r.Scope), uint64(r.View), uint64(r.Version), string(r.Writer)})
	}
	args := map[uint32]json.RawMessage{}
	for _, i := range t.effects {
		args[i.effect.Index] = i.effect.Args
	}
	for _, e := range seal.Effects {
		if e.Absent { // nothing comes of it, so there is nothing to judge
			continue
		}
		one := hookedEffect{Index: e.Index, Tool: e.Tool, Class: e.Class.String(), Key: e.Key}
		for _, scope := range e.Scopes {
			one.Scopes = append(one.Scopes, string(scope))
		}
		one.Args = args[e.Index]
		out.Effects = append(out.Effects, one)
	}
	for i := range seal.Shards {
		w := &seal.Shards[i]
		rev := view.Revision{Version: 1, Content: w.Content, Ref: w.Ref}
		sum := rev.Sum()
		one := hookedWrite{Scope: string(w.Scope), MediaType: w.Type, Size: rev.Size(), SHA256: hex.EncodeToString(sum[:])}
		if w.Op != sequencer.OpSet {
			one.Op = w.Op.String()
		}
		switch {
		case w.Ref != nil:
		case utf8.Valid(w.Content):
			text := string(w.Content)
			one.Content = &text
		default:
			one.ContentBase64 = base64.StdEncoding.EncodeToString(w.Content)
		}
		out.Writes = append(out.Writes, one)
	}
	return out
}

// askHook lets the hook look at a seal that is on its way to the log.
func (s *Agent) askHook(t *tx, in *sequencer.Intent) {
	if !s.hook.enabled() {
		return
	}
	in.Seal.Hook = true
	in.Seal.VerdictTicks = sequencer.Tick(s.hook.Timeout/view.TickLength) + hookSpare
	footprint := in.Seal.Footprint()
	body, err := json.Marshal(s.hookedOf(t, in.Seal, footprint))
	if err != nil {
		panic("sidecar: a footprint cannot be written: " + err.Error())
	}
	id := in.ID()
	started := s.loop.Go(func(ctx context.Context) { s.judge(ctx, t, id, footprint, body) })
	if !started {
		s.log.Warn("the hook was not asked; the log aborts the transaction at the bound", "tx", string(t.id))
	}
}

// judge asks the hook and tells the log once it has the seal.
func (s *Agent) judge(ctx context.Context, t *tx, seal string, footprint sequencer.Hash, body []byte) {
	var verdict sequencer.Verdict
	s.loop.Do(func() { verdict = s.hook.ask(ctx, body) }) // it may take its time
	verdict.Footprint = footprint
	err := s.untilTx(ctx, t, func() bool {
		// An approval that came first is told as another wait, of a transaction that is sealed as well.
		told := t.waiting != nil && (t.waiting.Intent == seal || len(t.waiting.Approvals) > 0)
		return t.outcome != nil || t.phase != phaseSealed || told
	})
	if err != nil || t.outcome != nil || t.phase != phaseSealed {
		return
	}
	in := t.intent(sequencer.IntentVerdict, s.agent, "")
	in.Verdict = &verdict
	_ = s.repeat(ctx, t, in)
}

// ask is the hook's verdict. A failure is no verdict on the work: the transaction is aborted, and may be tried again.
func (h *Hook) ask(ctx context.Context, body []byte) sequencer.Verdict {
	answer, err := h.Exchange(ctx, body, maxHookAnswer)
	var said struct {
		Yes    *bool  `json:"yes"`
		Reason string `json:"reason"`
	}
	if err == nil {
		if err = json.Unmarshal(answer, &said); err != nil || said.Yes == nil {
			err = errors.New(`its answer is not {"yes": true or false, "reason": text}`)
		}
	}
	if err != nil {
		return sequencer.Verdict{Unavailable: true, Reason: cut("the hook failed: "+err.Error(), maxHookReason)}
	}
	return sequencer.Verdict{Yes: *said.Yes, Reason: cut(said.Reason, maxHookReason)}
}

// Exchange sends a body and gives what is answered, of at most so many bytes, within the hook's time.
func (h *Hook) Exchange(ctx context.Context, body []byte, most int) (answer []byte, err error) {
	bound := cmp.Or(h.Timeout, defaultHookTimeout)
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	if h.URL != "" {
		answer, err = h.post(ctx, body, most)
	} else {
		answer, err = h.run(ctx, body, most)
	}
	switch {
	case err != nil && ctx.Err() != nil: // whatever broke, the bound did it
		return nil, fmt.Errorf("no answer within %v", bound)
	case err == nil && len(answer) > most:
		return nil, tooLong(most)
	}
	return answer, err
}

func tooLong(most int) error { return fmt.Errorf("its answer has more than %d bytes", most) }

// post asks a URL. A redirect is not followed: it is an answer that is not 2xx.
func (h *Hook) post(ctx context.Context, body []byte, most int) ([]byte, error) {
	client := &http.Client{Transport: h.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if client.Transport == nil {
		transport := &http.Transport{DisableKeepAlives: true, Proxy: nil}
		defer transport.CloseIdleConnections()
		client.Transport = transport
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("its URL cannot be asked")
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, errors.New("it cannot be reached")
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, fmt.Errorf("it answered with status %d", resp.StatusCode)
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, int64(most)+1))
	if err != nil {
		return nil, errors.New("its answer broke off")
	}
	return answer, nil
}

// run asks a program; it and what it has started are killed at the bound.
func (h *Hook) run(ctx context.Context, body []byte, most int) ([]byte, error) {
	out := limited{most: most}
	cmd := exec.CommandContext(ctx, h.Command[0], h.Command[1:]...)
	cmd.Stdin, cmd.Stdout = bytes.NewReader(body), &out
	cmd.Dir = h.Dir
	cmd.Env = withoutSecrets(cmd.Environ())
	child.KillWithContext(cmd, 100*time.Millisecond)
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case out.over:
		return nil, tooLong(most)
	case errors.As(err, &exit):
		return nil, fmt.Errorf("it ended with status %d", exit.ExitCode())
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return nil, errors.New("it cannot be run")
	}
	return out.buf.Bytes(), err
}

// withoutSecrets leaves out what the sidecar itself was told, its token for one.
func withoutSecrets(env []string) (out []string) {
	for _, e := range env {
		if !strings.HasPrefix(e, secretPrefix) {
			out = append(out, e)
		}
	}
	return out
}

// limited takes as many bytes as an answer may have.
type limited struct {
	most int
	buf  bytes.Buffer
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	if l.buf.Len()+len(p) > l.most {
		l.over = true
		return 0, errors.New("too much")
	}
	return l.buf.Write(p)
}

// cut shortens a text to so many bytes, at a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return strings.ToValidUTF8(text, "?")
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return strings.ToValidUTF8(text[:most], "?")
}
