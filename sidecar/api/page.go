package api

import "slices"

// Page is what a list is asked for: how many items, after which one, and what is picked by equality.
type Page struct {
	Limit int               // 1 or more
	After string            // the place of the item that the page before ended with; empty: the first page
	Pick  map[string]string // by the name of the query's parameter
}

// Wants says whether an item is picked: what was asked for by this name is what it has, or nothing was.
func (p Page) Wants(name, has string) bool {
	want, ok := p.Pick[name]
	return !ok || want == has
}

// Cut cuts a page out of a list. place is an item's place in it; next is that of the last item where there are more.
// An item that the page before ended with and that is gone since is an error: what comes after it is not known.
func Cut[T any](p Page, list []T, place func(T) string) (page []T, next string, err error) {
	if p.After != "" {
		at := slices.IndexFunc(list, func(one T) bool { return place(one) == p.After })
		if at < 0 {
			return nil, "", NotOnList(p.After)
		}
		list = list[at+1:]
	}
	if len(list) > p.Limit {
		list, next = list[:p.Limit], place(list[p.Limit-1])
	}
	return append([]T{}, list...), next, nil
}

// NotOnList is the problem of a page after an item that is not there.
func NotOnList(after string) error {
	return Problemf(CodeBadRequest, "after=%.100q is not on the list any more: begin again without it", after)
}
