package processor

import (
	"log/slog"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/hence-dev/hence/streams"
	"github.com/hence-dev/hence/streams/embedded"
	"github.com/hence-dev/hence/topology"
)

// Who is given up while it looks at its table is a former owner: it writes nothing behind its heir's rows.
func TestFormerOwnerReplacesNoRow(t *testing.T) {
	servers, err := embedded.Start(t.Context(), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer servers.Close()
	cfg := streams.Config{Brokers: servers.Brokers, Partitions: 1, Replication: 1, Logger: slog.New(slog.DiscardHandler)}
	if err := streams.EnsureTopics(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(cfg.ProducerOptions(0, kgo.NoCompression())...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	b := &base{cfg: cfg, out: producer{client: client}, table: topology.TableOf(topology.GroupFrontier),
		stores: make(map[int32]*tableStore), fail: func(err error) { t.Error(err) }}
	store := newTableStore(streams.TableSpan{}, nil)
	if err := store.Set("shop|", []byte("new")); err != nil {
		t.Fatal(err)
	}
	b.stores[0] = store
	givenUp := func() {}
	b.position = func(row []byte) int64 { // the last thing that is asked before a row is written
		givenUp()
		return int64(len(row))
	}
	late := &kgo.Record{Topic: b.table, Key: []byte("shop|"), Value: []byte("old"), Headers: atHeader(1)}
	if err := client.ProduceSync(t.Context(), late).FirstErr(); err != nil {
		t.Fatal(err)
	}
	look := func() (end int64) {
		if _, err := b.outwrite(t.Context(), 0, store, 0); err != nil {
			t.Fatal(err)
		}
		if err := client.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if end, err = streams.EndOffset(t.Context(), client, b.table, 0); err != nil {
			t.Fatal(err)
		}
		return end
	}
	givenUp = b.forgetStores
	if end := look(); end != 1 {
		t.Errorf("who was given up wrote %d rows", end-1)
	}
	givenUp, b.stores[0] = func() {}, store
	if end := look(); end != 2 {
		t.Errorf("the owner wrote %d rows", end-1)
	}
}
