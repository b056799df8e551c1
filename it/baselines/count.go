package baselines

import "time"

// Row is what one way of working left behind.
type Row struct {
	Name       string
	Tasks      int
	Committed  int
	Leaks      int // sends of attempts that did not commit
	Duplicates int // sends beyond the first of one business key by committed attempts, and of one attempt
	Violations int // commits on a read that was overtaken or dirty, and values of failed attempts that stand
	Rejections int
	Wait       time.Duration
	Took       time.Duration
}

// Count draws a row from a world's history. It knows nothing of how the attempts were run.
func Count(name string, tasks int, w *World, took time.Duration) Row {
	history := w.History()
	r := Row{Name: name, Tasks: tasks, Rejections: w.refused, Wait: w.waited, Took: took}
	ended := map[string]OpKind{}
	for _, op := range history {
		if op.Kind == OpCommit || op.Kind == OpAbort {
			ended[op.Attempt] = op.Kind
			if op.Kind == OpCommit {
				r.Committed++
			}
		}
	}
	r.countSends(history, ended)
	r.Violations = staleCommits(history, ended) + standing(history, ended)
	return r
}

func (r *Row) countSends(history []Op, ended map[string]OpKind) {
	sent := map[string]bool{}
	for _, op := range history {
		if op.Kind != OpSend {
			continue
		}
		if ended[op.Attempt] != OpCommit {
			r.Leaks++
			continue
		}
		if sent[op.Key] {
			r.Duplicates++
		}
		sent[op.Key] = true
	}
}

// written is one version of a scope: who made it, and where in the history.
type written struct {
	attempt string
	at      int
	restore bool
}

// staleCommits counts committed attempts with a read that another one had overtaken before the commit, or that
// showed what an attempt had written that did not commit.
func staleCommits(history []Op, ended map[string]OpKind) int {
	versions := map[string]map[int]written{}
	reads := map[string][]Op{}
	count := 0
	for _, op := range history {
		switch op.Kind {
		case OpWrite, OpRestore:
			if versions[op.Scope] == nil {
				versions[op.Scope] = map[int]written{}
			}
			versions[op.Scope][op.Version] = written{op.Attempt, op.At, op.Kind == OpRestore}
		case OpRead:
			reads[op.Attempt] = append(reads[op.Attempt], op)
		case OpCommit:
			if anyBad(reads[op.Attempt], versions, ended, op) {
				count++
			}
		}
	}
	return count
}

func anyBad(reads []Op, versions map[string]map[int]written, ended map[string]OpKind, commit Op) bool {
	for _, r := range reads {
		by := versions[r.Scope][r.Version]
		if by.attempt != "" && by.attempt != r.Attempt && !by.restore && ended[by.attempt] != OpCommit {
			return true // dirty
		}
		for version, w := range versions[r.Scope] {
			if version > r.Version && w.attempt != r.Attempt && w.at < commit.At {
				return true // overtaken
			}
		}
	}
	return false
}

// standing counts scopes whose last value is one of an attempt that did not commit.
func standing(history []Op, ended map[string]OpKind) int {
	last := map[string]Op{}
	for _, op := range history {
		if op.Kind == OpWrite || op.Kind == OpRestore {
			last[op.Scope] = op
		}
	}
	count := 0
	for _, op := range last {
		if op.Kind == OpWrite && ended[op.Attempt] != OpCommit {
			count++
		}
	}
	return count
}
