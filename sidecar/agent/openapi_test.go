package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	face "github.com/hence-dev/hence/sidecar/http"
)

var rewrite = flag.Bool("rewrite", false, "write openapi.json anew from openapi.yaml")

// loadOpenAPI reads and validates the document once.
var loadOpenAPI = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(face.OpenapiYAML)
	if err != nil {
		return nil, err
	}
	return doc, doc.Validate(context.Background())
})

// The document is valid, its JSON form is the same document, and it describes the routes that there are, no more and
// no fewer.
func TestOpenAPI(t *testing.T) {
	doc := must(loadOpenAPI())(t)
	asJSON := must(json.MarshalIndent(doc, "", " "))(t)
	asJSON = append(asJSON, '\n')
	if *rewrite {
		if err := os.WriteFile("../http/openapi.json", asJSON, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(asJSON, face.OpenapiJSON) {
		t.Error("openapi.json is not openapi.yaml: run go test ./sidecar/agent -run TestOpenAPI -rewrite")
	}
	var described, routed []string
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			described = append(described, method+" "+path+" "+op.OperationID)
		}
	}
	for _, r := range (&face.Face{}).Table() {
		routed = append(routed, r.Method+" "+strings.ReplaceAll(r.Pattern, "...}", "}")+" "+r.Name)
		checkParameters(t, doc, r)
	}
	slices.Sort(described)
	slices.Sort(routed)
	if !slices.Equal(described, routed) {
		t.Errorf("described:\n%s\nrouted:\n%s", strings.Join(described, "\n"), strings.Join(routed, "\n"))
	}
}

// checkParameters: the query parameters of a route are the described ones.
func checkParameters(t *testing.T, doc *openapi3.T, r face.Route) {
	t.Helper()
	item := doc.Paths.Value(strings.ReplaceAll(r.Pattern, "...}", "}"))
	if item == nil || item.GetOperation(r.Method) == nil {
		return
	}
	var described []string
	for _, p := range item.GetOperation(r.Method).Parameters {
		if p.Value.In == "query" {
			described = append(described, p.Value.Name)
		}
	}
	taken := strings.Fields(r.Query)
	slices.Sort(described)
	slices.Sort(taken)
	if !slices.Equal(described, taken) {
		t.Errorf("%s: described are the parameters %v, taken are %v", r.Name, described, taken)
	}
}

// checked is a transport that holds every answer against the document.
type checked struct {
	t    *testing.T
	next http.RoundTripper
}

func (c checked) RoundTrip(r *http.Request) (*http.Response, error) {
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
	if err := conforms(r, resp, body); err != nil {
		c.t.Errorf("%s %s: %d %s: %v", r.Method, r.URL.Path, resp.StatusCode, body, err)
	}
	return resp, nil
}

func (c checked) CloseIdleConnections() { c.next.(*http.Transport).CloseIdleConnections() }

// conforms holds one answer against the document.
func conforms(r *http.Request, resp *http.Response, body []byte) error {
	doc, err := loadOpenAPI()
	if err != nil {
		return err
	}
	for _, route := range (&face.Face{}).Table() {
		if _, ok := face.Match(route.Pattern, r.URL.EscapedPath()); !ok || route.Method != r.Method {
			continue
		}
		op := doc.Paths.Value(strings.ReplaceAll(route.Pattern, "...}", "}")).GetOperation(r.Method)
		answer := op.Responses.Status(resp.StatusCode)
		if answer == nil {
			answer = op.Responses.Default()
		}
		if answer == nil {
			return fmt.Errorf("the status is not described")
		}
		if len(body) == 0 && answer.Value.Content == nil {
			return nil
		}
		media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
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
