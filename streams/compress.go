package streams

import (
	"bytes"
	"sync"

	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kgo"
)

// smallBlocks compresses a batch into an LZ4 frame of blocks of 64 KiB, as Java's producers do. franz-go's own frames
// say 4 MiB, however small a batch is, and a writer or reader of such a frame holds two buffers of that size.
type smallBlocks struct{ writers sync.Pool }

// compressed are the options of a producer with this codec.
func compressed(codec kgo.CompressionCodec) []kgo.Opt {
	opts := []kgo.Opt{kgo.ProducerBatchCompression(codec)}
	if codec == kgo.Lz4Compression() {
		opts = append(opts, kgo.WithCompressor(&smallBlocks{writers: sync.Pool{New: func() any {
			w := lz4.NewWriter(nil)
			if err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb)); err != nil {
				panic("streams: LZ4 has no blocks of 64 KiB: " + err.Error())
			}
			return w
		}}}))
	}
	return opts
}

// Compress implements kgo.Compressor.
func (c *smallBlocks) Compress(dst *bytes.Buffer, src []byte, _ ...kgo.CompressFlag) (
	[]byte, kgo.CompressionCodecType,
) {
	w := c.writers.Get().(*lz4.Writer)
	defer c.writers.Put(w)
	w.Reset(dst)
	_, err := w.Write(src)
	if err == nil {
		err = w.Close()
	}
	w.Reset(nil) // dst is the client's, and is used again
	if err != nil {
		return nil, kgo.CodecError
	}
	return dst.Bytes(), kgo.CodecLz4
}
