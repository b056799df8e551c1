package it

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// TestTidyRulesFail gives each house rule a file that breaks it.
func TestTidyRulesFail(t *testing.T) {
	for _, c := range []struct {
		rule       string
		check      func(*source) []string
		path, text string
	}{
		{"file length", longFile, "streams/a.go", "package a\n" + strings.Repeat("\n", maxFileLines)},
		{"function length", longFunctions, "streams/a.go",
			"package a\nfunc f() {" + strings.Repeat("\n", maxFunctionLines) + "}\n"},
		{"line length", longLines, "streams/a.go", "package a\n// " + strings.Repeat("é", 120)},
		{"sleep", sleeps, "streams/a_test.go", "package a\nfunc f() { time.Sleep(1) }"},
		{"skip", bareSkips, "streams/a_test.go", "package a\nfunc f() { t.Skip() }"},
		{"skip now", bareSkips, "streams/a_test.go", "package a\nfunc f() { t.SkipNow() }"},
		{"arrow back", arrows, "streams/a.go", "package a\nimport \"github.com/hence-dev/hence/sidecar\""},
		{"arrow from the fold", arrows, "sequencer/a.go", "package a\nimport \"github.com/hence-dev/hence/topology\""},
		{"arrow from the detectors", arrows, "sequencer/anomaly/a.go",
			"package a\nimport \"github.com/hence-dev/hence/topology/trace\""},
		{"arrow from the measure of detectors", arrows, "sequencer/anomaly/brute/a.go",
			"package a\nimport \"github.com/hence-dev/hence/topology\""},
		{"arrow from the fold to traces", arrows, "sequencer/script/a.go",
			"package a\nimport \"github.com/hence-dev/hence/topology/trace\""},
		{"arrow to the processors", arrows, "streams/a.go",
			"package a\nimport \"github.com/hence-dev/hence/streams/processor\""},
		{"arrow to the inspections", arrows, "streams/a.go",
			"package a\nimport \"github.com/hence-dev/hence/streams/inspect\""},
		{"goka in a client", arrows, "streams/a.go", "package a\nimport \"github.com/lovoo/goka\""},
		{"processors in a doctor", arrows, "streams/inspect/a.go",
			"package a\nimport \"github.com/hence-dev/hence/streams/processor\""},
		{"doctor in a processor", arrows, "streams/processor/a.go",
			"package a\nimport \"github.com/hence-dev/hence/streams/inspect\""},
		{"processors in a sidecar", arrows, "sidecar/http/a.go",
			"package a\nimport \"github.com/hence-dev/hence/streams/processor\""},
		{"agent in a face", sidecarArrows, "sidecar/http/a.go",
			"package http\nimport \"github.com/hence-dev/hence/sidecar/agent\""},
		{"journal in a face", sidecarArrows, "sidecar/mcp/a.go",
			"package mcp\nimport \"github.com/hence-dev/hence/sidecar/journal\""},
		{"view in a face", sidecarArrows, "sidecar/http/a.go",
			"package http\nimport \"github.com/hence-dev/hence/sidecar/view\""},
		{"a face in a face", sidecarArrows, "sidecar/mcp/a.go",
			"package mcp\nimport \"github.com/hence-dev/hence/sidecar/http\""},
		{"a face in an agent", sidecarArrows, "sidecar/agent/a.go",
			"package agent\nimport \"github.com/hence-dev/hence/sidecar/http\""},
		{"agent in the journal", sidecarArrows, "sidecar/journal/a.go",
			"package journal\nimport \"github.com/hence-dev/hence/sidecar/agent\""},
		{"agent in its settlements", sidecarArrows, "sidecar/agent/settle/a.go",
			"package settle\nimport \"github.com/hence-dev/hence/sidecar/agent\""},
		{"agent in the view", sidecarArrows, "sidecar/view/a.go",
			"package view\nimport \"github.com/hence-dev/hence/sidecar/agent\""},
		{"all of the sidecar in the loop", sidecarArrows, "sidecar/loop/a.go",
			"package loop\nimport \"github.com/hence-dev/hence/sidecar\""},
		{"a package without a row", sidecarArrows, "sidecar/other/a.go", "package other"},
		{"agent in a command", sidecarArrows, "cmd/hence/a.go",
			"package main\nimport \"github.com/hence-dev/hence/sidecar/agent\""},
		{"the inside of an agent", agentsInside, "sidecar/a.go", "package sidecar\nfunc f(w agent.Writer) {}"},
		{"clock in the fold", arrows, "sequencer/a.go", "package a\nimport \"time\""},
		{"client of the client", arrows, "sidecar/client/a.go", "package a\nimport \"github.com/hence-dev/hence/sidecar\""},
		{"function without comment", undocumented, "streams/a.go", "package a\nfunc F() {}"},
		{"method without comment", undocumented, "streams/a.go", "package a\nfunc (T[K]) F() {}"},
		{"type without comment", undocumented, "streams/a.go", "package a\ntype T int"},
		{"left over", leftovers, "streams/a.go", "package a\n// " + "TO" + "DO: later"},
		{"init", importWork, "streams/a.go", "package a\nfunc init() {}"},
		{"variable", importWork, "streams/a.go", "package a\nvar table = map[string]int{}"},
		{"weakened", weakened, "streams/a.go", "package a\nvar w = sequencer.WeakenNoBase"},
	} {
		if found := c.check(parsed(t, c.path, c.text)); len(found) == 0 {
			t.Errorf("%s: nothing is found in %q", c.rule, c.text)
		}
	}
	fine := parsed(t, "streams/a.go", "// Package a is fine.\npackage a\nvar errA = errors.New(\"a\")\nvar _ I = T{}\n")
	for _, check := range []func(*source) []string{longFile, longFunctions, longLines, arrows, sidecarArrows,
		agentsInside, undocumented, importWork} {
		if found := check(fine); len(found) > 0 {
			t.Errorf("a file that keeps the rules has %v", found)
		}
	}
	twice := []*source{fine, parsed(t, "streams/b.go", "// Package a again.\npackage a\n")}
	if len(packageDocs(twice)) != 1 || len(packageDocs([]*source{parsed(t, "x/a.go", "package a")})) != 1 {
		t.Error("a second package comment, or none, is not found")
	}
}

func parsed(tb testing.TB, path, text string) *source {
	tb.Helper()
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, path, text, parser.ParseComments)
	if err != nil {
		tb.Fatal(err)
	}
	return &source{path: path, text: []byte(text), tree: tree, set: set}
}
