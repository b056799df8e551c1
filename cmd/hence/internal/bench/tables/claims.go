package tables

import (
	"embed"
	"maps"
	"strings"
)

//go:embed claims
var claims embed.FS

// Papers are the papers, in the order of reports.
func Papers() []string { return []string{"light-cone", "detector", "s-bus", "atomix"} }

// Rows are all claims of the papers, in their order, with what runs them.
func Rows() (rows []Row) {
	all := map[string]run{}
	for _, runs := range []map[string]run{coneRuns(), axiomRuns(), detectorRuns(), preventionRuns(), sessionRuns(),
		placedRuns(), deathRuns(), busRuns(), nodeRuns(), atomixRuns(), branchRuns(), errandRuns(), gateRuns()} {
		maps.Copy(all, runs)
	}
	for _, paper := range Papers() {
		text, err := claims.ReadFile("claims/" + paper + ".txt")
		if err != nil {
			panic("tables: the claims of " + paper + " are not in the program: " + err.Error())
		}
		for line := range strings.Lines(string(text)) {
			field := append(strings.Split(strings.TrimSpace(line), " | "), "")
			row := Row{ID: field[0], Paper: paper, Needs: field[1], Claim: field[2], Value: field[3], Waits: field[4]}
			row.run = all[row.ID]
			if row.run == nil && row.Waits == "" {
				row.Waits = "a program that runs it"
			}
			rows = append(rows, row)
		}
	}
	return rows
}
