package check

import "slices"

// Unfounded holds that every committed read saw a committed write: the version that it names is the seq of one, and
// the content is what that one wrote. A version of a scope that no attempt wrote is not judged.
func (h *History) Unfounded() []Violation {
	type key struct {
		scope string
		seq   uint64
	}
	var found []Violation
	wrote, known := map[key]Write{}, map[string]bool{}
	commits := h.commits()
	for _, c := range commits {
		for _, w := range c.Writes {
			wrote[key{w.Scope, c.seq}], known[w.Scope] = w, true
		}
	}
	for _, c := range commits {
		for _, r := range c.Reads {
			if r.Version == 0 || !known[r.Scope] {
				continue
			}
			w, ok := wrote[key{r.Scope, r.Version}]
			switch {
			case !ok:
				found = append(found, violation("unfounded", "%s read %s at version %d, which no committed transaction wrote",
					c.Tx, r.Scope, r.Version))
			case w.SHA256 != "" && r.SHA256 != "" && w.SHA256 != r.SHA256:
				found = append(found, violation("unfounded", "%s read %s at version %d with content %.12s, written was %.12s",
					c.Tx, r.Scope, r.Version, r.SHA256, w.SHA256))
			}
			if r.View < r.Version {
				found = append(found, violation("unfounded", "%s read %s at version %d from a view of seq %d",
					c.Tx, r.Scope, r.Version, r.View))
			}
		}
	}
	return found
}

// Overtaken holds that no transaction committed on a read that an earlier decision overtook: between the version read
// and the commit no transaction wrote the scope.
func (h *History) Overtaken() []Violation {
	var found []Violation
	commits := h.commits()
	writes := versions(commits)
	for _, c := range commits {
		for _, r := range c.Reads {
			seqs := writes[r.Scope]
			i, _ := slices.BinarySearch(seqs, r.Version+1)
			if i < len(seqs) && seqs[i] < c.seq {
				found = append(found, violation("overtaken", "%s committed at seq %d on %s of version %d, written at seq %d",
					c.Tx, c.seq, r.Scope, r.Version, seqs[i]))
			}
		}
	}
	return found
}
