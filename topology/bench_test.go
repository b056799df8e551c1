package topology

import (
	"fmt"
	"testing"

	"github.com/hence-dev/hence/sequencer"
)

func benchmark[T any](b *testing.B, v *T, encode func(*T) ([]byte, error), decode func([]byte) (*T, error)) {
	b.Helper()
	record, err := encode(v)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(record)))
		for b.Loop() {
			if _, err := encode(v); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(record)))
		for b.Loop() {
			if _, err := decode(record); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(record)), "B/record")
	})
}

func BenchmarkIntent(b *testing.B)  { benchmark(b, sampleIntents()[3], EncodeIntent, DecodeIntent) }
func BenchmarkOutcome(b *testing.B) { benchmark(b, sampleOutcomes()[4], EncodeOutcome, DecodeOutcome) }
func BenchmarkCloudEvent(b *testing.B) {
	benchmark(b, sampleOutcomes()[4], encodeDecision, DecodeCloudEvent)
}

// BenchmarkReplica is the state of a workspace with so many transactions open.
func BenchmarkReplica(b *testing.B) {
	for _, open := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint(open), func(b *testing.B) {
			r := sampleReplica()
			tx := r.State.Txs[0]
			r.State.Txs = make([]sequencer.TxState, open)
			for i := range r.State.Txs {
				r.State.Txs[i] = tx
			}
			benchmark(b, r, EncodeReplica, DecodeReplica)
		})
	}
}
