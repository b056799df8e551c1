package adapters

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/policy/template"
)

const maxRedirects = 5

// The headers that tell a sink which call it has before it.
const (
	HeaderKey         = "Idempotency-Key"
	HeaderCompensates = "Hence-Compensates"
	HeaderForbidOnly  = "Hence-Forbid-Only" // "true": undo the key only if it is on record, refuse it in any case
)

type httpAdapter struct {
	spec    gate.HTTPSpec
	env     gate.Env
	url     template.Template
	look    template.Template
	headers map[string]template.Template
	body    *template.Tree
	client  *http.Client
	asker   *http.Client // for look-ups

	doneWhen, refusedWhen, absentWhen, foundWhen conditions
	keep                                         [][]string
}

func newHTTP(d gate.Decl) (gate.Adapter, error) {
	spec, err := readSpec[gate.HTTPSpec](d)
	if err != nil {
		return nil, err
	}
	p := &parser{}
	a := &httpAdapter{spec: spec, env: d.Env, url: p.text("url", spec.URL), headers: map[string]template.Template{},
		keep: d.Keep}
	a.body = p.tree("body", spec.Body)
	a.doneWhen = p.conditions("done_when", spec.DoneWhen)
	a.refusedWhen = p.conditions("refused_when", spec.RefusedWhen)
	for name, text := range spec.Headers {
		switch http.CanonicalHeaderKey(name) {
		case HeaderKey, HeaderCompensates, HeaderForbidOnly, "Host", "Content-Length", "Transfer-Encoding", "Connection",
			"Traceparent":
			return nil, fmt.Errorf("the header %s is set by the adapter: leave it out", name)
		}
		if !isToken(name) {
			return nil, fmt.Errorf("%q is no name of a header", name)
		}
		a.headers[name] = p.text("header "+name, text)
	}
	if spec.LookUp != nil {
		a.look = p.text("lookup.url", spec.LookUp.URL)
		a.absentWhen = p.conditions("lookup.absent_when", spec.LookUp.AbsentWhen)
		a.foundWhen = p.conditions("lookup.found_when", spec.LookUp.FoundWhen)
	}
	if spec.Method == "" || !isToken(spec.Method) {
		return nil, fmt.Errorf("method %q: write GET, POST, PUT, PATCH or DELETE", spec.Method)
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	// One connection a call: on a connection that is used again the transport repeats a request by itself, and a proxy
	// of the environment would be an undeclared host.
	a.client = &http.Client{CheckRedirect: sameOrigin, Transport: &http.Transport{
		DisableKeepAlives: true, Protocols: protocols, TLSHandshakeTimeout: 10 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}}
	// A redirect leads away from the record that was asked for, perhaps to a page that asks for a password.
	a.asker = &http.Client{Transport: a.client.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return a, p.err
}

// sameOrigin follows a redirect only to where the request went: headers with secrets, and the body, go nowhere else.
// A method that the redirect would change is not followed either.
func sameOrigin(next *http.Request, via []*http.Request) error {
	first := via[0].URL
	if len(via) > maxRedirects || next.URL.Scheme != first.Scheme || next.URL.Host != first.Host ||
		next.Method != via[0].Method {
		return http.ErrUseLastResponse
	}
	return nil
}

// Check makes the request, and that of the look-up, without sending them.
func (a *httpAdapter) Check(c gate.Call) error {
	_, _, err := a.request(context.Background(), c, anySecret())
	if err == nil && a.spec.LookUp != nil {
		v, _ := values(c) // they were read for the request
		_, err = a.target(a.look, v)
	}
	return unsent("making the request", err)
}

// Call sends the request.
func (a *httpAdapter) Call(ctx context.Context, c gate.Call) (gate.Answer, error) {
	s := newSecrets(a.env, a.keep...)
	req, connected, err := a.request(ctx, c, s)
	if err != nil {
		return gate.Answer{}, unsent("making the request", hideIn(s, err))
	}
	status, header, data, whole, err := send(a.client, req)
	if err != nil {
		if !connected.Load() { // no connection, so no byte of the request left
			return gate.Answer{}, notSent("%s", s.clean(err.Error()))
		}
		return gate.Answer{}, unknown("%s", s.clean(err.Error()))
	}
	said := fmt.Sprintf("%s answered %d", req.URL.Host, status)
	switch a.judge(status, data, whole) {
	case refused:
		return s.answer(gate.Answer{Refused: true, AboutKey: a.replayed(header),
			Detail: s.detail(said + ": " + string(data))}), nil
	case unclear:
		if header.Get("Location") != "" {
			said += " with a redirect that is not followed"
		}
		return gate.Answer{}, unknown("%s", s.detail(said+": "+string(data)))
	}
	if !whole {
		// It acted, yet the answer is cut or over the bound. With a key asking again is free.
		if c.Key != "" {
			return gate.Answer{}, unknown("%s, and the answer is cut or longer than %d bytes", said, MaxAnswer)
		}
		return gate.Answer{Detail: fmt.Sprintf("%s; the answer is cut or longer than %d bytes", said, MaxAnswer)}, nil
	}
	return s.answer(gate.Answer{Detail: said, Result: result(data)}), nil
}

func hideIn(s *secrets, err error) error { return errors.New(gate.Plain(s.clean(err.Error()))) }

// request builds the call's request; connected becomes true once there is a connection that it may leave by.
func (a *httpAdapter) request(ctx context.Context, c gate.Call, s *secrets) (*http.Request, *atomic.Bool, error) {
	v, err := values(c)
	if err != nil {
		return nil, nil, err
	}
	target, err := a.target(a.url, v)
	if err != nil {
		return nil, nil, err
	}
	var body []byte
	withSecrets := template.Values{Names: v.Names, Secret: s.get}
	switch {
	case a.body != nil:
		if body, err = a.body.JSON(v); err != nil {
			return nil, nil, fmt.Errorf("body: %w", err)
		}
	case a.spec.Method == http.MethodPost || a.spec.Method == http.MethodPut || a.spec.Method == http.MethodPatch:
		var compact bytes.Buffer // one spelling: sinks hold a key's repetition against its first body
		if err := json.Compact(&compact, c.Args); err != nil && len(c.Args) > 0 {
			return nil, nil, fmt.Errorf("body: %w", err)
		}
		if body = compact.Bytes(); len(body) == 0 {
			body = []byte("{}")
		}
	}
	req, connected, err := newRequest(ctx, a.spec.Method, target, body)
	if err != nil {
		return nil, nil, err
	}
	if err := a.head(req, c, withSecrets); err != nil {
		return nil, nil, err
	}
	if len(body) > 0 && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, connected, nil
}

func newRequest(ctx context.Context, method string, u *url.URL, body []byte) (*http.Request, *atomic.Bool, error) {
	connected := &atomic.Bool{}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, fmt.Errorf("making the request: %w", err)
	}
	return req, connected, nil
}

// head fills the headers in. Values with control characters are refused: one of them could start another header.
func (a *httpAdapter) head(req *http.Request, c gate.Call, v template.Values) error {
	set := func(name, value string) error {
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return fmt.Errorf("header %s: its value holds a control character", name)
		}
		req.Header.Set(name, value)
		return nil
	}
	for name, t := range a.headers {
		value, err := t.Expand(v, nil)
		if err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
		if err := set(name, value); err != nil {
			return err
		}
	}
	only := ""
	if c.ForbidOnly {
		only = "true"
	}
	for name, value := range map[string]string{
		HeaderKey: c.Key, HeaderCompensates: c.Compensates, HeaderForbidOnly: only, "Traceparent": c.Traceparent,
	} {
		if value == "" {
			continue
		}
		if err := set(name, value); err != nil {
			return err
		}
	}
	return nil
}

// send returns the status and the answer; whole is false when the answer is cut or longer than MaxAnswer.
func send(client *http.Client, req *http.Request) (int, http.Header, []byte, bool, error) {
	resp, err := client.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) { // its text is the whole URL with the values of the call
			err = fmt.Errorf("%s %s: %w", req.Method, req.URL.Host, u.Err)
		}
		return 0, nil, nil, false, err
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	whole := err == nil && len(data) <= MaxAnswer
	_ = resp.Body.Close() // the answer was read or is given up
	return resp.StatusCode, resp.Header, data[:min(len(data), MaxAnswer)], whole, nil
}

// LookUp asks the declared URL.
func (a *httpAdapter) LookUp(ctx context.Context, c gate.Call) (gate.Answer, error) {
	if a.spec.LookUp == nil {
		return gate.Answer{}, gate.ErrNoLookup
	}
	s := newSecrets(a.env, a.keep...)
	v, err := values(c)
	if err != nil {
		return gate.Answer{}, err
	}
	target, err := a.target(a.look, v)
	if err != nil {
		return gate.Answer{}, fmt.Errorf("looking the call up: %w", err)
	}
	method := a.spec.LookUp.Method
	if method == "" {
		method = http.MethodGet
	}
	req, _, err := newRequest(ctx, method, target, nil)
	if err != nil {
		return gate.Answer{}, err
	}
	v.Secret = s.get
	if err := a.head(req, gate.Call{Traceparent: c.Traceparent}, v); err != nil {
		return gate.Answer{}, fmt.Errorf("looking the call up: %w", hideIn(s, err))
	}
	status, _, data, whole, err := send(a.asker, req)
	if err != nil {
		return gate.Answer{}, unknown("looking the call up: %s", s.clean(err.Error()))
	}
	absent := a.spec.LookUp.Absent
	if len(absent) == 0 {
		absent = []int{http.StatusNotFound}
	}
	switch {
	case slices.Contains(absent, status) && (a.absentWhen == nil || whole && a.absentWhen.hold(data)):
		return gate.Answer{Absent: true, Detail: fmt.Sprintf("the look-up answered %d", status)}, nil
	case status >= 200 && status <= 299 && whole && (a.foundWhen == nil || a.foundWhen.hold(data)):
		return s.answer(gate.Answer{Detail: "found by look-up", Result: result(data)}), nil
	}
	return gate.Answer{}, unknown("the look-up answered %d", status)
}

func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
	})
}
