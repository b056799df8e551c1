package feed

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// sinkhole takes everything at once.
type sinkhole struct{ header http.Header }

func (s sinkhole) Header() http.Header       { return s.header }
func (sinkhole) WriteHeader(int)             {}
func (sinkhole) Write(b []byte) (int, error) { return io.Discard.Write(b) }
func (sinkhole) Flush()                      {}

// BenchmarkStream is what one decision costs one reader that keeps up.
func BenchmarkStream(b *testing.B) {
	src := newSource()
	src.add(b.N)
	src.failAt = src.list[b.N-1].Seq + 1
	h := New(Config{Follow: src.follow})
	b.ReportAllocs()
	b.ResetTimer()
	h.Serve(sinkhole{http.Header{}}, httptest.NewRequest(http.MethodGet, "/?after=0", nil), "w")
	if sent := h.Stats().Sent; sent != uint64(b.N) {
		b.Fatalf("%d of %d decisions", sent, b.N)
	}
}
