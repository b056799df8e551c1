// Package fenced reads the shell blocks of Markdown files and runs them in one shell, as a reader would who pastes one
// after the other. It knows nothing of Hence but that what a serving command prints may begin with "export".
package fenced

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Block is one fenced block of shell commands.
type Block struct {
	File    string
	Line    int    // of its first command, from 1
	Section string // the heading above it
	Text    string
	Marks   []string // what the info string says behind "sh"
}

// Where names the block for messages.
func (b Block) Where() string { return fmt.Sprintf("%s:%d (%s)", b.File, b.Line, b.Section) }

// Has says whether the block carries a mark.
func (b Block) Has(mark string) bool { return slices.Contains(b.Marks, mark) }

// Exit is the exit code that the block must end with: that of the mark exit=N, else 0.
func (b Block) Exit() (int, error) {
	for _, mark := range b.Marks {
		if text, found := strings.CutPrefix(mark, "exit="); found {
			code, err := strconv.Atoi(text)
			if err != nil || code < 1 || code > 255 {
				return 0, fmt.Errorf("%s: the mark %q: give exit=1 to exit=255", b.Where(), mark)
			}
			return code, nil
		}
	}
	return 0, nil
}

// Blocks are all blocks of a Markdown text whose info string begins with sh, in their order. A fence that is never
// closed and shell under another name (bash, shell, console) are errors: they would not be run.
func Blocks(file, text string) ([]Block, error) {
	var all []Block
	section, fence, indent := "", "", ""
	var open *Block
	for i, line := range strings.Split(text, "\n") {
		if fence != "" {
			if strings.TrimSpace(line) == fence {
				if open != nil {
					all = append(all, *open)
				}
				open, fence = nil, ""
			} else if open != nil {
				open.Text += strings.TrimPrefix(line, indent) + "\n"
			}
			continue
		}
		if heading := strings.TrimLeft(line, "#"); heading != line && strings.HasPrefix(heading, " ") {
			section = strings.TrimSpace(heading)
		}
		full := line
		line = strings.TrimLeft(full, " ")
		if !strings.HasPrefix(line, "```") {
			continue
		}
		indent = full[:len(full)-len(line)] // of a block in a list
		fence = line[:len(line)-len(strings.TrimLeft(line, "`"))]
		words := strings.Fields(strings.TrimLeft(line, "`"))
		switch {
		case len(words) == 0:
		case words[0] == "sh":
			open = &Block{File: file, Line: i + 2, Section: section, Marks: words[1:]}
		case slices.Contains([]string{"bash", "shell", "console", "zsh"}, words[0]):
			return nil, fmt.Errorf("%s:%d: the block is called %s: call it sh, so that it is run", file, i+1, words[0])
		}
	}
	if fence != "" {
		return nil, fmt.Errorf("%s: the last block under %q is not closed", file, section)
	}
	return all, nil
}
