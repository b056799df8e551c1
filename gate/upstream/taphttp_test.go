package upstream_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hence-dev/hence/gate/upstream"
)

// What a server answers over HTTP comes as it was written, as JSON and as a stream of events: numbers that are no
// float64, and fields that the SDK does not know.
func TestHTTPAsWritten(t *testing.T) {
	const result = `{"content":[],"structuredContent":{"n":9007199254740993},"unknown":1}`
	for name, write := range map[string]func(w http.ResponseWriter, id string){
		"json": func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
		},
		"stream": func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "event: message\r\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\","+
				"\"params\":{\"level\":\"info\",\"data\":\"x\"}}\r\n\r\n")
			_ = http.NewResponseController(w).Flush()
			half := len(result) / 2
			_, _ = fmt.Fprintf(w, "event: message\nid: 1\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s", id,
				result[:half])
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, result[half:]+"}\n\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var in struct {
					ID     json.RawMessage
					Method string
				}
				_ = json.NewDecoder(r.Body).Decode(&in)
				answer := func(text string) {
					w.Header().Set("Content-Type", "application/json")
					_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, in.ID, text)
				}
				switch {
				case len(in.ID) == 0: // a notification
					w.WriteHeader(http.StatusAccepted)
				case in.Method == "initialize":
					answer(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},` +
						`"serverInfo":{"name":"s","version":"1"}}`)
				case in.Method == "tools/list":
					answer(`{"tools":[{"name":"look","inputSchema":{"type":"object"}}]}`)
				case in.Method == "tools/call":
					write(w, string(in.ID))
				default:
					w.Header().Set("Content-Type", "application/json")
					_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, in.ID)
				}
			}))
			defer server.Close()
			set := open(t, map[string]upstream.Server{"s": {Type: "http", URL: server.URL}})
			for range 2 {
				got, err := set.Call(within(t), "s", upstream.Call{Tool: "look", Args: json.RawMessage(`{}`)})
				if err != nil || strings.TrimSpace(string(got.Raw)) != result {
					t.Errorf("%s, %v", got.Raw, err)
				}
			}
		})
	}
}
