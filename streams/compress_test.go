package streams

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A batch reads back as it was, also one of several blocks, and its frame asks a reader for 64 KiB a block at most.
func TestSmallBlocks(t *testing.T) {
	cl, err := kgo.NewClient(compressed(kgo.Lz4Compression())...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	c, _ := cl.OptValue(kgo.WithCompressor).(kgo.Compressor)
	reader := kgo.DefaultDecompressor()
	for _, size := range []int{0, 1, 300, 64 << 10, 200 << 10, 300} { // the writer is used again
		batch := bytes.Repeat([]byte("one row, and another one; "), size/26+1)[:size]
		frame, codec := c.Compress(new(bytes.Buffer), batch)
		if codec != kgo.CodecLz4 {
			t.Fatalf("%d bytes: codec %d", size, codec)
		}
		if block := frame[5] >> 4 & 7; block != 4 { // the frame's header: 4 is 64 KiB, 7 is 4 MiB
			t.Errorf("%d bytes: blocks of size %d", size, block)
		}
		if got, err := reader.Decompress(frame, codec); err != nil || !bytes.Equal(got, batch) {
			t.Errorf("%d bytes come back as %d: %v", size, len(got), err)
		}
	}
}
