package http

import (
	"net/http"
	"strings"

	"github.com/hence-dev/hence/sidecar/api"
)

// step is a place in the tree of the interface's paths. A request is looked up by walking along its segments: to hold
// its path against each pattern took longer than all else that is done before its handler.
type step struct {
	next   map[string]*step // by the segment that leads there
	any    *step            // where every other segment leads, unless it is empty
	rest   *step            // where all that is left of a path leads, as it was written
	name   string           // of any and rest: what the segments stand for
	routes []*route         // that end here, in the order of the table
}

// paths are the places of all patterns.
func paths(routes []route) *step {
	root := &step{}
	for i := range routes {
		at := root
		for name := range strings.SplitSeq(routes[i].pattern[1:], "/") {
			at = at.to(name)
		}
		at.routes = append(at.routes, &routes[i])
	}
	return root
}

// to is where a segment of a pattern leads; it is made if it is not there.
func (s *step) to(segment string) *step {
	name, named := strings.CutPrefix(strings.TrimSuffix(segment, "}"), "{")
	name, rest := strings.CutSuffix(name, "...")
	switch {
	case rest:
		if s.rest == nil {
			s.rest = &step{name: name}
		}
		return s.rest
	case named:
		if s.any == nil {
			s.any = &step{name: name}
		}
		return s.any
	case s.next == nil:
		s.next = map[string]*step{}
	}
	if s.next[segment] == nil {
		s.next[segment] = &step{}
	}
	return s.next[segment]
}

// walk is where an escaped path leads, and what stands in it for names; nil: nowhere.
func (s *step) walk(path string) (_ *step, named params) {
	for s != nil && path != "" {
		switch {
		case path[0] != '/':
			return nil, nil
		case s.rest != nil:
			return s.rest, append(named, param{s.rest.name, path[1:]})
		}
		here := segment(path[1:])
		path = path[1+len(here):]
		if next := s.next[here]; next != nil || here == "" {
			s = next
			continue
		}
		if s = s.any; s != nil {
			if named == nil {
				named = make(params, 0, 2) // no pattern has more
			}
			named = append(named, param{s.name, here})
		}
	}
	return s, named
}

// params are what stands in a path for the names of its pattern.
type params []param

type param struct{ name, value string }

// get is empty where the pattern has no such name.
func (p params) get(name string) string {
	for _, one := range p {
		if one.name == name {
			return one.value
		}
	}
	return ""
}

// find is the route of a request; when there is none, the methods that its path takes.
func (f *Face) find(method, path string) (_ *route, _ params, allowed []string) {
	at, named := f.paths.walk(path)
	if at == nil {
		return nil, nil, nil
	}
	for _, route := range at.routes {
		if route.method == method || route.method == http.MethodGet && method == http.MethodHead {
			return route, named, nil
		}
	}
	for _, route := range at.routes {
		allowed = append(allowed, route.method)
	}
	return nil, nil, allowed
}

func (f *Face) noRoute(r *http.Request, allowed []string) *reply {
	path := r.URL.EscapedPath()
	known := func(path string) bool {
		at, _ := f.paths.walk(path)
		return at != nil && len(at.routes) > 0
	}
	list := strings.Join(allowed, ", ")
	detail := "use " + list
	switch short := "/" + strings.Trim(path, "/"); {
	case len(allowed) > 0 && r.Method == http.MethodDelete && strings.Contains(path, "/shards/"):
		detail = "a shard is not deleted: PUT an empty content, or retract the transaction that wrote it"
	case len(allowed) > 0:
	case short != path && known(short):
		return problemReply(api.Problemf(api.CodeNoRoute, "there is no such route: write %.200s, with one slash "+
			"before and none behind", short))
	case known("/v1" + short):
		return problemReply(api.Problemf(api.CodeNoRoute, "there is no such route: write /v1%.200s", short))
	default:
		return problemReply(api.Problemf(api.CodeNoRoute, "there is no such route: see /v1/openapi.json"))
	}
	out := problemReply(api.Problemf(api.CodeMethod, "%.20s is not for this route: %s", r.Method, detail))
	out.header["Allow"] = list
	return out
}

// segment is what comes before the next slash.
func segment(path string) string {
	s, _, _ := strings.Cut(path, "/")
	return s
}
