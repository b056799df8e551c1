package topology

import (
	"strconv"
	"strings"
)

// markerForm begins the text of a marker and names its form; a reader passes over a form that it does not know.
const markerForm = "hence1"

// Marker says from which offset on a partition of a table is whole: a reader that begins there meets every row that
// counts, and need not read what lies before. It stands beside a committed offset of the group that owns the table
// (MarkerTopic), because Kafka takes that from the present owner only; see docs/holes.md, row 23.
type Marker struct {
	Table string // id of the table's topic; a topic that was created again has other offsets. No blanks
	From  int64  // an offset of the table's partition
}

// String is the marker as the metadata of a committed offset, some 50 bytes: brokers take 4 KiB by default.
func (m Marker) String() string {
	return markerForm + " " + m.Table + " " + strconv.FormatInt(m.From, 10)
}

// ParseMarker reads what String wrote; false for anything else, such as what another tool left or a later form.
func ParseMarker(metadata string) (m Marker, ok bool) {
	parts := strings.Split(metadata, " ")
	if len(parts) != 3 || parts[0] != markerForm || parts[1] == "" {
		return Marker{}, false
	}
	from, err := strconv.ParseInt(parts[2], 10, 64)
	m = Marker{Table: parts[1], From: from}
	return m, err == nil && from >= 0 && m.String() == metadata
}

// MarkerTopic is the input of a group beside whose committed offsets the markers of its table stand. Partition p of
// it has the marker of partition p of the table.
func MarkerTopic(group string) string {
	switch group {
	case GroupOf(GroupSequencer, ReplicaA), GroupOf(GroupSequencer, ReplicaB):
		return TopicIntents
	}
	return TopicDecisions
}
