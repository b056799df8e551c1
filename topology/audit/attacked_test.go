package audit

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hence-dev/hence/topology"
)

// TestTail drops decisions behind the last seal, and all of them with all seals, while the intents stay.
func TestTail(t *testing.T) {
	t.Parallel()
	m := newLog(t, 200)
	decisions, seals := m.topics[topology.TopicDecisions], m.topics[topology.TopicSeals]
	m.topics[topology.TopicSeals] = seals[:len(seals)-1]
	m.topics[topology.TopicDecisions] = decisions[:len(decisions)-3]
	r := run(t, m, trusted(1))
	if !strings.Contains(strings.Join(r.Notes, "\n"), "the intents lead to decisions 198 to 200") {
		t.Errorf("three decisions that the intents lead to are not there, and the report does not say it: %+v", r)
	}
	m.topics[topology.TopicSeals], m.topics[topology.TopicDecisions] = []Record{}, []Record{}
	if r = run(t, m, trusted(1)); len(r.Findings) == 0 {
		t.Errorf("all decisions and seals are gone, and the report holds: %+v", r)
	}
}

// TestCutKeys holds that a file of keys is taken whole or not at all.
func TestCutKeys(t *testing.T) {
	t.Parallel()
	const public = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAiojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=\n"
	const end = "-----END PUBLIC KEY-----\n"
	if _, err := TrustedKeys([]byte(public + end + public)); err == nil {
		t.Error("half a key is at the end, and the file is trusted")
	}
}

// TestManifest holds that a bundle says once of which log it is.
func TestManifest(t *testing.T) {
	t.Parallel()
	whole := bundleOf(t, newLog(t, 200))
	for name, change := range map[string]func(string, []byte) []byte{
		"names no log": func(_ string, b []byte) []byte {
			return bytes.Replace(b, []byte(`"log": "log"`), []byte(`"log": ""`), 1)
		},
	} {
		_, err := OpenBundle(bytes.NewReader(repacked(t, whole, change)))
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	end := len(whole)
	for end >= 512 && bytes.Count(whole[end-512:end], []byte{0}) == 512 {
		end -= 512
	}
	twice := append(bytes.Clone(whole[:end]), whole...)
	if _, err := OpenBundle(bytes.NewReader(twice)); err == nil || !strings.Contains(err.Error(), "is there twice") {
		t.Errorf("every file twice: %v", err)
	}
	only := func(name string, b []byte) []byte {
		if name == manifestName {
			return b
		}
		return nil
	}
	twice = append(bytes.Clone(whole[:end]), repacked(t, whole, only)...)
	_, err := OpenBundle(bytes.NewReader(twice))
	if err == nil || !strings.Contains(err.Error(), "manifest.json is there twice") {
		t.Errorf("two manifests: %v", err)
	}
}
