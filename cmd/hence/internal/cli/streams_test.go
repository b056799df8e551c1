package cli

import (
	"encoding/json"
	"errors"
	"testing"
)

// A workspace that has stopped is named and leaves the processors ready; a part that is wrong does not.
func TestReadyOf(t *testing.T) {
	notes := map[string]string{"workspace shop": "it has stopped at offset 7"}
	for _, c := range []struct {
		ready  map[string]error
		notes  map[string]string
		status int
		body   string
	}{
		{map[string]error{"kafka": nil}, nil, 200, `{"parts":{"kafka":"ok"},"ready":true}`},
		{map[string]error{"kafka": nil}, notes, 200,
			`{"notes":{"workspace shop":"it has stopped at offset 7"},"parts":{"kafka":"ok"},"ready":true}`},
		{map[string]error{"kafka": errors.New("away")}, nil, 503, `{"parts":{"kafka":"away"},"ready":false}`},
	} {
		status, answer := readyOf(c.ready, c.notes)
		if b, err := json.Marshal(answer); err != nil || status != c.status || string(b) != c.body {
			t.Errorf("%d %s, %v, want %d %s", status, b, err, c.status, c.body)
		}
	}
}
