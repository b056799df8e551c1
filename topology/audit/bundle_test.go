package audit

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hence-dev/hence/sequencer"
	"github.com/hence-dev/hence/topology"
)

// envRecords is how many decisions TestManyDamages has; 100000 is the size of the promise.
const envRecords = "HENCE_IT_AUDIT_RECORDS"

func bundleOf(t *testing.T, m Source) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteBundle(t.Context(), &b, m, appended, "v1"); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestBundle holds that a bundle has what its source had: the audit of both is the same.
func TestBundle(t *testing.T) {
	m := newLog(t, 200)
	b, err := OpenBundle(bytes.NewReader(bundleOf(t, m)))
	if err != nil {
		t.Fatal(err)
	}
	if at, release := b.Made(); at != appended.Format(time.RFC3339) || release != "v1" || len(b.m.Rules) == 0 {
		t.Errorf("%s %s, rules %v", at, release, b.m.Rules)
	}
	for _, trust := range []Keys{nil, trusted(1)} {
		if got, want := run(t, b, trust), run(t, m, trust); !reflect.DeepEqual(got, want) {
			t.Errorf("the bundle's: %+v\nwant %+v", got, want)
		}
	}
	for _, topic := range Topics() {
		if b.Place(topic) != m.Place(topic) {
			t.Errorf("%s: %+v, want %+v", topic, b.Place(topic), m.Place(topic))
		}
	}
	m.topics[topology.TopicIntents] = nil
	if b, err = OpenBundle(bytes.NewReader(bundleOf(t, m))); err != nil || !b.Place(topology.TopicIntents).Absent {
		t.Errorf("without intents: %v", err)
	}
}

// repacked is a bundle with changed files: nil leaves one out.
func repacked(t *testing.T, b []byte, change func(name string, text []byte) []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	r, w := tar.NewReader(bytes.NewReader(b)), tar.NewWriter(&out)
	for h, err := r.Next(); err != io.EOF; h, err = r.Next() {
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if text = change(h.Name, text); text == nil {
			continue
		}
		h.Size = int64(len(text))
		if _, wrong := w.Write(nil); wrong != nil || w.WriteHeader(h) != nil {
			t.Fatal(wrong)
		}
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestBundleDamaged holds that what happened to a file on its way is said, and that what is no bundle is refused.
func TestBundleDamaged(t *testing.T) {
	whole := bundleOf(t, newLog(t, 200))
	spoil := func(of string, with func([]byte) []byte) []byte {
		return repacked(t, whole, func(name string, text []byte) []byte {
			if name == of {
				return with(text)
			}
			return text
		})
	}
	decisions := topology.TopicDecisions + "/000001.jsonl"
	for name, file := range map[string][]byte{
		"a line less": spoil(decisions, func(b []byte) []byte { return b[bytes.IndexByte(b, '\n')+1:] }),
		"a space":     spoil(decisions, func(b []byte) []byte { return append(slices.Clone(b), ' ') }),
		"no file":     spoil(decisions, func([]byte) []byte { return nil }),
	} {
		b, err := OpenBundle(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		r := run(t, b, trusted(1))
		if f := r.Findings[len(r.Findings)-1]; f.Kind != KindFile || f.Topic != decisions {
			t.Errorf("%s: %+v", name, r.Findings)
		}
		if name == "a line less" && (r.Findings[0].Kind != KindMissing || r.Findings[0].Seq != 1) {
			t.Errorf("%s: %+v", name, r.Findings[0])
		}
	}
	with := func(old, to string) func([]byte) []byte {
		return func(b []byte) []byte { return bytes.Replace(b, []byte(old), []byte(to), 1) }
	}
	for name, file := range map[string][]byte{
		"no manifest":    spoil(manifestName, func([]byte) []byte { return nil }),
		"no JSON":        spoil(manifestName, func([]byte) []byte { return []byte("{") }),
		"another format": spoil(manifestName, with(`"format": 1`, `"format": 2`)),
		"no workspace":   spoil(manifestName, with(`"shop"`, `""`)),
		"cut":            whole[:len(whole)/2],
		"no tar":         []byte(strings.Repeat("no tar ", 200)),
		"nothing":        nil,
	} {
		if _, err := OpenBundle(bytes.NewReader(file)); !errors.Is(err, ErrBundle) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cut := func(b []byte) []byte { return append(slices.Clone(b), '{') }
	b, err := OpenBundle(bytes.NewReader(spoil(decisions, cut)))
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, b, trusted(1))
	if f := r.Findings[len(r.Findings)-1]; f.Kind != KindFile || f.Topic != decisions {
		t.Errorf("a record that is cut: %+v", r.Findings)
	}
	// A manifest that was made again with it says nothing of it: then it cannot be read.
	var sums [2]string
	spoil(decisions, func(b []byte) []byte {
		sums = [2]string{fmt.Sprintf("%x", sha256.Sum256(b)), fmt.Sprintf("%x", sha256.Sum256(cut(b)))}
		return b
	})
	made := repacked(t, spoil(decisions, cut), func(name string, text []byte) []byte {
		if name == manifestName {
			return with(sums[0], sums[1])(text)
		}
		return text
	})
	if b, err = OpenBundle(bytes.NewReader(made)); err != nil || len(b.Damaged) > 0 {
		t.Fatalf("%v, damaged %v", err, b.Damaged)
	}
	if _, err := Run(t.Context(), b, nil, 0); !errors.Is(err, ErrBundle) {
		t.Errorf("a record that is cut: %v", err)
	}
	half := string(whole[:len(whole)/2])
	for file, want := range map[string]string{"\x1f\x8b\x08 and more": "gunzip", half: "cut short"} {
		if _, err := OpenBundle(strings.NewReader(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %s", file, err, want)
		}
	}
}

// TestManyDamages does many damages of one kind to one log, and holds that each is named.
func TestManyDamages(t *testing.T) {
	size, count := 2000, 100
	if n, err := strconv.Atoi(os.Getenv(envRecords)); err == nil {
		size, count = n, 1000
	}
	whole := newLog(t, size)
	n := len(whole.topics[topology.TopicDecisions])
	for name, do := range damages(topology.TopicDecisions) {
		m, rnd := whole.clone(), rand.New(rand.NewPCG(17, 2))
		var offsets []int64
		seqs := map[sequencer.Seq]bool{}
		for i := count - 1; i >= 0; i-- { // from the end: what lies before keeps its place
			at := i*(n/count) + rnd.IntN(n/count-4) + 1
			switch name {
			case "two swapped":
				s := m.topics[topology.TopicDecisions]
				s[at], s[at+1] = s[at+1], s[at]
			case "a record inserted":
				r, _ := forge(t, m, at, decode(t, m.topics[topology.TopicDecisions][at-1]).Chain)
				m.topics[topology.TopicDecisions] = slices.Insert(m.topics[topology.TopicDecisions], at, r)
			case "a record dropped":
				seqs[decode(t, m.topics[topology.TopicDecisions][at]).Seq] = true
				m.topics[topology.TopicDecisions] = slices.Delete(m.topics[topology.TopicDecisions], at, at+1)
			default:
				do(t, m, at, rnd)
			}
			offsets = append(offsets, int64(at))
		}
		m.number(topology.TopicDecisions)
		found := map[int64]bool{}
		began := time.Now()
		for _, f := range run(t, m, trusted(1)).Findings {
			if f.Topic == topology.TopicDecisions {
				found[f.Offset] = true
				delete(seqs, f.Seq)
			}
		}
		took := time.Since(began)
		slices.Sort(offsets)
		named := 0
		for i, at := range offsets {
			switch name {
			case "a record inserted":
				at += int64(i)
			case "two swapped":
				if found[at+1] {
					at++
				}
			}
			if found[at] {
				named++
			}
		}
		if name == "a record dropped" {
			named = count - len(seqs)
		}
		if named != count {
			t.Errorf("%s: %d of %d are named", name, named, count)
		}
		t.Logf("%s: %d of %d named in one log of %d decisions, in %v", name, named, count, n, took)
	}
}

// TestKeys holds which files of keys are read.
func TestKeys(t *testing.T) {
	const private = `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB
-----END PRIVATE KEY-----
`
	const public = `-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAiojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=
-----END PUBLIC KEY-----
`
	if k, err := SigningKey([]byte(private)); err != nil || !k.Equal(key(1)) {
		t.Errorf("the private key: %v", err)
	}
	if k, err := TrustedKeys([]byte("of 2026\n" + public)); err != nil || !reflect.DeepEqual(k, trusted(1)) {
		t.Errorf("the public key: %v, %v", k, err)
	}
	const ec = `-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt
6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q==
-----END PUBLIC KEY-----
`
	for name, text := range map[string]string{"a private key": private, "another kind": ec, "nothing": "",
		"no key": strings.Replace(public, "MCow", "MCox", 1)} {
		if _, err := TrustedKeys([]byte(text)); err == nil {
			t.Errorf("%s is trusted", name)
		}
	}
	for name, text := range map[string]string{"a public key": public, "nothing": "",
		"no key": strings.Replace(private, "MC4C", "MC4D", 1)} {
		if _, err := SigningKey([]byte(text)); err == nil {
			t.Errorf("%s signs", name)
		}
	}
}
