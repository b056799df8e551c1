package processor_test

import (
	"testing"

	"github.com/hence-dev/hence/streams/internal/teststreams"
)

func TestMain(m *testing.M) {
	if !child() { // the processors of TestRowsAfterEveryEnd
		teststreams.Main(m)
	}
}
