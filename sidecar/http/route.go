package http

import (
	"net/http"
	"slices"
	"strings"

	"github.com/hence-dev/hence/sidecar/api"
)

// find is the route of a request; when there is none, the methods that its path takes.
func (f *Face) find(r *http.Request) (_ *route, _ map[string]string, allowed []string) {
	path := r.URL.EscapedPath()
	for i := range f.routes {
		route := &f.routes[i]
		switch {
		case !match(route.pattern, path, nil):
		case route.method == r.Method, route.method == http.MethodGet && r.Method == http.MethodHead:
			params := map[string]string{}
			match(route.pattern, path, params)
			return route, params, nil
		default:
			allowed = append(allowed, route.method)
		}
	}
	return nil, nil, allowed
}

func (f *Face) noRoute(r *http.Request, allowed []string) *reply {
	path := r.URL.EscapedPath()
	known := func(path string) bool {
		return slices.ContainsFunc(f.routes, func(r route) bool {
			return match(r.pattern, path, nil)
		})
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

// match holds an escaped path against a pattern; params takes what stands for its names, and may be nil.
func match(pattern, path string, params map[string]string) bool {
	for pattern != "" {
		if path == "" || path[0] != '/' {
			return false
		}
		want, got := segment(pattern[1:]), segment(path[1:])
		if name, rest := strings.CutSuffix(want, "...}"); rest {
			if params != nil {
				params[name[1:]] = path[1:]
			}
			return true
		}
		switch named := strings.HasPrefix(want, "{"); {
		case named && got == "", !named && want != got:
			return false
		case named && params != nil:
			params[want[1:len(want)-1]] = got
		}
		pattern = pattern[1+len(want):]
		path = path[1+len(got):]
	}
	return path == ""
}

// segment is what comes before the next slash.
func segment(path string) string {
	s, _, _ := strings.Cut(path, "/")
	return s
}
