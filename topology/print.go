package topology

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"
)

// Print writes topics as a table for people; encoding/json writes them for programs.
func Print(w io.Writer, topics []Topic) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TOPIC\tKEY\tVALUE\tPARTITIONS\tCOPIES\tCLEANUP\tRETENTION\tSEGMENT\tMAX RECORD\tPURPOSE")
	for _, x := range topics {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d (%d in sync)\t%s\t%s\t%s\t%s\t%s\n", x.Name, x.Key, x.Value, x.Partitions,
			x.Replication, x.MinInsyncReplicas, x.Cleanup, retentionText(x.RetentionMs),
			sizeText(x.SegmentBytes), sizeText(int64(x.MaxMessageBytes)), x.Purpose)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print topics: %w", err)
	}
	return nil
}

func retentionText(ms int64) string {
	switch {
	case ms == Forever:
		return "forever"
	case ms%dayMs == 0:
		return strconv.FormatInt(ms/dayMs, 10) + " days"
	}
	return (time.Duration(ms) * time.Millisecond).String()
}

func sizeText(n int64) string {
	if n%mebibyte == 0 {
		return strconv.FormatInt(n/mebibyte, 10) + " MiB"
	}
	return strconv.FormatInt(n, 10) + " B"
}
