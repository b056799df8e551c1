package processor_test

import (
	"testing"

	"github.com/hence-dev/hence/streams/internal/teststreams"
)

func TestMain(m *testing.M) {
	if !child() && !sealingChild() { // the processors of TestRowsAfterEveryEnd, and those that are killed
		teststreams.Main(m)
	}
}
