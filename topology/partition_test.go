package topology

import (
	"fmt"
	"hash/fnv"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"
)

// TestPartitionersAgree holds PartitionOf to what franz-go's sarama-compatible hasher and goka compute.
func TestPartitionersAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workspace := rapid.StringMatching(`[a-z0-9][a-z0-9_-]{0,62}`).Draw(t, "workspace")
		rest := rapid.OneOf(rapid.Just(""), rapid.StringN(0, 20, 60)).Draw(t, "rest")
		partitions := int32(1) << rapid.IntRange(0, 10).Draw(t, "bits")
		key := workspace + "|" + rest
		want := PartitionOf(workspace, partitions)
		if want < 0 || want >= partitions {
			t.Fatalf("partition %d of %d", want, partitions)
		}
		if WorkspaceOfKey(key) != workspace || RestOfKey(key) != rest || WorkspaceOfKey(workspace) != workspace {
			t.Fatalf("%q is cut into %q and %q", key, WorkspaceOfKey(key), RestOfKey(key))
		}
		plain := fnv.New32a()
		if _, err := plain.Write([]byte(workspace)); err != nil {
			t.Fatal(err)
		}
		h := NewHasher()
		for _, piece := range []string{key[:len(key)/2], key[len(key)/2:]} {
			if n, err := h.Write([]byte(piece)); n != len(piece) || err != nil {
				t.Fatalf("Write: %d, %v", n, err)
			}
		}
		if h.Sum32() != plain.Sum32() || HashWorkspace([]byte(key)) != plain.Sum32() {
			t.Fatalf("hashes of %q differ", key)
		}
		goka := int32(h.Sum32())
		if goka < 0 {
			goka = -goka
		}
		franz := kgo.SaramaCompatHasher(HashWorkspace)([]byte(key), int(partitions))
		if PartitionOf(key, partitions) != want || goka%partitions != want || franz != int(want) {
			t.Fatalf("%q: partition %d, goka %d, franz-go %d", key, want, goka%partitions, franz)
		}
		h.Reset()
		if h.Sum32() != fnv.New32a().Sum32() {
			t.Fatal("Reset leaves something behind")
		}
	})
}

// TestPartitionsSpread holds that workspaces with similar names do not pile up.
func TestPartitionsSpread(t *testing.T) {
	counts := make([]int, DefaultPartitions)
	for i := range 800 {
		counts[PartitionOf(fmt.Sprintf("team-%d", i), DefaultPartitions)]++
	}
	for p, n := range counts {
		if n < 50 || n > 150 {
			t.Errorf("partition %d has %d of 800 workspaces", p, n)
		}
	}
}
