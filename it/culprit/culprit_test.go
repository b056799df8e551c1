package culprit

import (
	"fmt"
	"testing"
)

// TestCheckCanFail: a refusal whose cause is not in the log as it says is found.
func TestCheckCanFail(t *testing.T) {
	const stale = `{"data":{"seq":2,"kind":"aborted","tx":"t2","code":"stale_read","scope":%q,` +
		`"moved":{"seq":%d,"tx":%q}}}`
	for _, tc := range []struct {
		scope string
		seq   int
		tx    string
		holds bool
	}{{"shard:/a", 1, "t1", true}, {"shard:/b", 1, "t1", false}, {"shard:/a", 2, "t1", false},
		{"shard:/a", 1, "t3", false}, {"", 1, "t1", false}, {"shard:/a", 0, "", false}} {
		l, err := Read([][]byte{
			[]byte(`{"data":{"seq":1,"kind":"committed","tx":"t1","writes":[{"scope":"shard:/a"}]}}`),
			[]byte(fmt.Sprintf(stale, tc.scope, tc.seq, tc.tx))})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Check(&l.All[1]); (err == nil) != tc.holds {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}
