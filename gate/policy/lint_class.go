package policy

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/sequencer"
)

// class compares the declared class with what the adapter and the tool's name say.
func (l *linter) class() {
	d := l.d
	if d.unclassed {
		l.report(Note, d.place, "no-class", "it has no class, so each of its calls waits for the commit, one that only "+
			"reads too", "say in \"class\" what it does")
		return
	}
	writes, how := l.adapterWrites()
	switch {
	case writes && d.class == sequencer.ClassRead:
		l.report(Mistake, d.place, "read-that-writes", fmt.Sprintf("it is declared a read, and %s changes something", how),
			"declare it irreversible, so that it waits for the commit")
	case how != "" && !writes && d.class != sequencer.ClassRead && d.class != sequencer.ClassKnownOutcome &&
		!slices.ContainsFunc(words(d.pattern), in(leavingVerbs)): // a GET that pays had better wait
		l.report(Note, d.place, "write-that-reads", fmt.Sprintf("it is declared %s, and %s only reads", d.class, how),
			"declare it read: then its answer is at once and checked for staleness")
	case d.block != nil && d.block.kind == gate.KindSMTP && d.class.Eager():
		l.report(Mistake, d.place, "eager-mail", fmt.Sprintf("it is %s and leaves at once, and a mail that left cannot be "+
			"taken back", d.class), "declare it irreversible")
	}
	if isGlob(d.pattern) && strings.Trim(d.pattern, "*?") == "" && d.class != sequencer.ClassIrreversible {
		l.report(Mistake, d.place, "broad-glob",
			fmt.Sprintf("%q makes every undeclared tool %s", d.pattern, d.class),
			"remove it: a name that nothing declares is refused")
		return
	}
	l.nameSays(writes, how)
}

// nameSays uses the verbs of the name where no adapter tells more.
func (l *linter) nameSays(writes bool, how string) {
	d := l.d
	if how != "" {
		return
	}
	verb, changes := nameVerb(d.pattern)
	switch {
	case verb == "":
	case changes && d.class == sequencer.ClassRead:
		l.report(Mistake, d.place, "read-that-writes", fmt.Sprintf("it is declared a read, and its name says %q", verb),
			"declare it irreversible, so that it waits for the commit, or rename it")
	case !changes && d.class != sequencer.ClassRead && !d.undoOnly:
		l.report(Note, d.place, "write-that-reads", fmt.Sprintf("it is declared %s, and its name says %q", d.class, verb),
			"declare it read, if it changes nothing")
	}
}

// adapterWrites says whether the adapter changes something, and what shows it; empty: it cannot be told.
func (l *linter) adapterWrites() (writes bool, how string) {
	if l.d.block == nil {
		return false, ""
	}
	switch s := l.d.block.parsed.(type) {
	case *gate.HTTPSpec:
		if s.Method == "POST" && l.d.class == sequencer.ClassRead && readsByName(l.d.pattern) {
			return false, "" // a search by POST
		}
		return s.Method != "GET" && s.Method != "HEAD", "http " + s.Method
	case *gate.SMTPSpec:
		return true, "a mail"
	case *gate.FileSpec:
		return s.Op != gate.OpRead, "file op " + s.Op
	case *gate.ShardSpec:
		return s.Op != gate.OpRead, "shard op " + s.Op
	case *gate.SQLSpec:
		verb := sqlVerb(s.Statement)
		return sqlWrites(s.Statement), "sql " + verb
	}
	return false, ""
}

func readsByName(pattern string) bool {
	verb, changes := nameVerb(pattern)
	return verb != "" && !changes
}

func sqlVerb(statement string) string {
	verb, _, _ := strings.Cut(strings.TrimSpace(statement), " ")
	return strings.ToUpper(strings.TrimSpace(verb))
}

// sqlWrites looks for a writing word anywhere: a SELECT can hold a WITH that deletes, or call for a lock.
func sqlWrites(statement string) bool {
	words := strings.FieldsFunc(strings.ToUpper(statement), func(r rune) bool { return !unicode.IsLetter(r) && r != '_' })
	return slices.ContainsFunc(words, func(w string) bool {
		switch w {
		case "INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "DROP", "ALTER", "CREATE", "CALL", "COPY", "GRANT",
			"NEXTVAL", "SETVAL":
			return true
		}
		return false
	})
}

// nameVerb returns the first word of a name that says what it does.
func nameVerb(pattern string) (verb string, changes bool) {
	for _, word := range words(pattern) {
		switch word {
		case "get", "list", "find", "search", "read", "show", "lookup", "query", "describe", "count", "fetch", "view":
			return word, false
		case "create", "update", "delete", "remove", "write", "set", "put", "post", "send", "pay", "charge", "refund",
			"cancel", "move", "rename", "insert", "add", "change", "publish", "transfer", "book", "order_place", "drop",
			"deploy", "notify", "execute", "run", "edit", "modify", "upload", "submit", "approve", "close", "open":
			return word, true
		}
	}
	return "", false
}

func cannotBeUndone(verb string) bool {
	return slices.Contains([]string{"send", "notify", "publish", "pay", "charge", "transfer", "deploy"}, verb)
}

// words splits a name at everything that is no letter, and where a capital follows a small letter.
func words(name string) []string {
	var out []string
	var word []rune
	last := ' '
	flush := func() {
		if len(word) > 0 {
			out = append(out, strings.ToLower(string(word)))
			word = nil
		}
	}
	for _, r := range name {
		if !unicode.IsLetter(r) {
			flush()
		} else {
			if unicode.IsUpper(r) && unicode.IsLower(last) {
				flush()
			}
			word = append(word, r)
		}
		last = r
	}
	flush()
	return out
}

// namesResource reports whether an argument's name says that it chooses what is moved.
func namesResource(argument string) bool {
	parts := words(argument)
	if len(parts) == 0 {
		return false
	}
	switch parts[len(parts)-1] {
	case "id", "ids", "path", "file", "filename", "url", "uri", "to", "recipient", "mailbox", "table", "row", "bucket",
		"account", "host", "sku", "iban", "repo", "branch", "destination", "target", "directory", "folder", "uuid":
		return true
	}
	return false
}
