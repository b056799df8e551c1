package it

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hence-dev/hence/it/harness"
)

// goTest finds each command that runs tests, up to the end of its line or of its code span.
var goTest = regexp.MustCompile("(?:go|\\$\\(GO\\)) test ([^`\n]*)")

// testFunc finds what "go test -run" can name.
var testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)

// subtests finds, in the pattern of -run, what selects below a test.
var subtests = regexp.MustCompile(`/[^|(]*(\([^)]*\)[^|(]*)*`)

// testsOf are the tests of each folder that has test files, by the folder's path from root, such as "./it/docs".
func testsOf(t *testing.T, root string) map[string][]string {
	t.Helper()
	tests := map[string][]string{}
	eachFile(t, root, func(path, text string) {
		if strings.HasSuffix(path, "_test.go") {
			folder := "./" + filepath.ToSlash(filepath.Dir(path))
			for _, found := range testFunc.FindAllStringSubmatch(text, -1) {
				tests[folder] = append(tests[folder], found[1])
			}
		}
	})
	return tests
}

// eachFile visits the repository's files that can hold tests or commands.
func eachFile(t *testing.T, root string, visit func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(path, ".md") &&
			d.Name() != "Makefile" && d.Name() != "run":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(root, path)
		visit(inside, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// parts are the packages that a command names, without the one for all, and its pattern of tests.
func parts(command string) (packages []string, run string) {
	words := strings.Fields(strings.NewReplacer("'", " ", `\|`, "|", "-run=", "-run ").Replace(command))
	if i := slices.Index(words, "-run"); i >= 0 && i+1 < len(words) {
		run = subtests.ReplaceAllString(strings.ReplaceAll(words[i+1], "$$", "$"), "")
	}
	return slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, "./") || w == "./..." }), run
}

// covers reports whether a package of a command, such as ./it/..., has a folder.
func covers(name, folder string) bool {
	above, below := strings.CutSuffix(name, "/...")
	return folder == above || below && strings.HasPrefix(folder, above+"/")
}

// unrunnable says what a command names that does not exist: a package, a test of one, or a test in all of them. It is
// nil for a command that names no package, or all of them.
func unrunnable(command string, tests map[string][]string) (wrong []string) {
	packages, run := parts(command)
	patterns := strings.Split(run, "|")
	var all []string
	for _, name := range packages {
		var here []string
		for at := range maps.Keys(tests) {
			if covers(name, at) {
				here = append(here, tests[at]...)
			}
		}
		if len(here) == 0 {
			wrong = append(wrong, name+" has no tests")
		} else if !slices.ContainsFunc(patterns, func(one string) bool { return names(one, here) }) {
			wrong = append(wrong, name+" has no test "+run)
		}
		all = append(all, here...)
	}
	for _, one := range patterns {
		if len(all) > 0 && !names(one, all) {
			wrong = append(wrong, "there is no test "+one)
		}
	}
	return wrong
}

// names says whether one alternative of -run matches a test; without -run all do.
func names(pattern string, tests []string) bool {
	matches, err := regexp.Compile(pattern)
	return err == nil && slices.ContainsFunc(tests, matches.MatchString)
}

// TestCommandsOfDocuments holds that each "go test" in a document, the Makefile or .ci/run names packages and tests
// that exist: a command that runs nothing succeeds.
func TestCommandsOfDocuments(t *testing.T) {
	root := harness.Root(t)
	tests := testsOf(t, root)
	checked := 0
	eachFile(t, root, func(path, text string) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		for n, line := range strings.Split(text, "\n") {
			for _, command := range goTest.FindAllStringSubmatch(line, -1) {
				checked++
				for _, wrong := range unrunnable(command[1], tests) {
					t.Errorf("%s:%d: go test %s: %s", path, n+1, command[1], wrong)
				}
			}
		}
	})
	t.Logf("%d commands checked", checked)
	if checked < 200 {
		t.Errorf("%d commands are found, want 200 or more", checked)
	}
}

// TestEverySizeIsRun holds that each file of tests that asks for the size of its searches has a test in a command of
// the Makefile or .ci/run at full size: "make searches" names its tests, and a new one would stay a sample for ever.
func TestEverySizeIsRun(t *testing.T) {
	root := harness.Root(t)
	var whole []string // commands at full size, but for those of all packages
	files := map[string]string{}
	eachFile(t, root, func(path, text string) {
		switch {
		case strings.HasSuffix(path, "_test.go"):
			if strings.Contains(text, "testsize.Small()") && !strings.HasPrefix(path, "it/") {
				files[path] = text
			}
		case !strings.HasSuffix(path, ".md"):
			for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
				if strings.Contains(line, "HENCE_TEST_FULL=1") || strings.Contains(line, "HENCE_SIM_SECONDS=") {
					whole = append(whole, line)
				}
			}
		}
	})
	for path, text := range files {
		folder := "./" + filepath.ToSlash(filepath.Dir(path))
		runs := func(command string) bool {
			packages, run := parts(command)
			return slices.ContainsFunc(packages, func(name string) bool { return covers(name, folder) }) &&
				slices.ContainsFunc(testFunc.FindAllStringSubmatch(text, -1), func(found []string) bool {
					return names(run, found[1:])
				})
		}
		if !slices.ContainsFunc(whole, runs) {
			t.Errorf("%s: no command at full size runs a test of it: name it in make searches", path)
		}
	}
	if len(files) < 15 {
		t.Errorf("%d files ask for the size, want 15 or more", len(files))
	}
}

// Each kind of stale command is found, and one that can be run is not.
func TestCommandsCanBeStale(t *testing.T) {
	tests := map[string][]string{"./a": {"TestOne", "TestTwo"}, "./a/b": {"TestThree"}}
	for command, want := range map[string]int{
		"./a -run 'TestOne\\|TestTwo/sub'": 0, "./a/... -run TestThree": 0, "-run=^TestOne$$ ./a": 0, "./...": 0,
		"./c -run TestOne": 1, "./a -run TestThree": 2, "./a -run 'TestOne|TestFour'": 1, "./a ./a/b -run TestOne": 1,
	} {
		if wrong := unrunnable(command, tests); len(wrong) != want {
			t.Errorf("go test %s: %q, want %d findings", command, wrong, want)
		}
	}
}
