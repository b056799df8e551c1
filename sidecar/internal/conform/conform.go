// Package conform holds the answers of an HTTP interface against its OpenAPI document. It is for tests.
//
// It checks what a document says of an answer: that the status is described, the media type with it, and that a JSON
// body has the described shape. It does not check requests: what a handler refuses is for the handler's own tests.
package conform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// Document is a valid OpenAPI document.
type Document struct {
	doc        *openapi3.T
	operations []Operation
}

// Operation is one method of one path.
type Operation struct {
	Method, Path, ID string
	Query            []string // the names of its query parameters
	matches          *regexp.Regexp
	answers          *openapi3.Responses
}

// Load reads a document, as YAML or JSON.
func Load(text []byte) (*Document, error) {
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, err
	}
	if err := doc.Validate(context.Background()); err != nil {
		return nil, err
	}
	d := &Document{doc: doc}
	param := regexp.MustCompile(`\\\{\w+\\\}`)
	for path, item := range doc.Paths.Map() {
		form := regexp.QuoteMeta(path)
		form = strings.ReplaceAll(form, `\{scope\}`, ".*") // the name of a shard has slashes
		matches := regexp.MustCompile("^" + param.ReplaceAllString(form, "[^/]+") + "$")
		for method, op := range item.Operations() {
			o := Operation{Method: method, Path: path, ID: op.OperationID, matches: matches, answers: op.Responses}
			for _, p := range op.Parameters {
				if p.Value.In == "query" {
					o.Query = append(o.Query, p.Value.Name)
				}
			}
			d.operations = append(d.operations, o)
		}
	}
	return d, nil
}

// Operations are all that the document describes, in no order.
func (d *Document) Operations() []Operation { return d.operations }

// JSON is the document as JSON. Two forms of one document have the same.
func (d *Document) JSON() ([]byte, error) { return json.Marshal(d.doc) }

// Answer says what an answer to a request has that the document does not describe. What is asked beside the document
// may be answered with anything.
func (d *Document) Answer(method, path string, status int, header http.Header, body []byte) error {
	for _, o := range d.operations {
		if o.Method != method || !o.matches.MatchString(path) {
			continue
		}
		answer := o.answers.Status(status)
		if answer == nil {
			answer = o.answers.Default()
		}
		if answer == nil {
			return errors.New("the status is not described")
		}
		if len(body) == 0 && answer.Value.Content == nil {
			return nil
		}
		media, _, _ := strings.Cut(header.Get("Content-Type"), ";")
		kind := answer.Value.Content.Get(media)
		if kind == nil {
			return fmt.Errorf("the media type %s is not described", media)
		}
		if kind.Schema == nil || !strings.HasSuffix(media, "json") {
			return nil
		}
		var value any
		if err := json.Unmarshal(body, &value); err != nil {
			return err
		}
		return kind.Schema.Value.VisitJSON(value)
	}
	return nil
}

// Transport fails a test for each answer that the document does not describe.
func (d *Document) Transport(t testing.TB, next *http.Transport) http.RoundTripper {
	return transport{d, t, next}
}

type transport struct {
	doc  *Document
	t    testing.TB
	next *http.Transport
}

// RoundTrip is part of http.RoundTripper.
func (c transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if err != nil {
		return resp, err
	}
	if err := c.doc.Answer(r.Method, r.URL.EscapedPath(), resp.StatusCode, resp.Header, body); err != nil {
		c.t.Errorf("%s %s: %d %s: %v", r.Method, r.URL.Path, resp.StatusCode, body, err)
	}
	return resp, nil
}

// CloseIdleConnections lets http.Client close those below.
func (c transport) CloseIdleConnections() { c.next.CloseIdleConnections() }
