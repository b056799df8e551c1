package http

import (
	"net/http"
	"slices"
	"strings"

	"github.com/hence-dev/hence/sidecar/api"
)

// find is the route of a request; when there is none, the methods that its path takes.
func (f *Face) find(r *http.Request) (_ *route, _ map[string]string, allowed []string) {
	for i := range f.routes {
		route := &f.routes[i]
		params, ok := match(route.pattern, r.URL.EscapedPath())
		switch {
		case !ok:
		case route.method == r.Method, route.method == http.MethodGet && r.Method == http.MethodHead:
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
			_, ok := match(r.pattern, path)
			return ok
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

// match holds an escaped path against a pattern.
func match(pattern, path string) (map[string]string, bool) {
	var params map[string]string
	for pattern != "" {
		want, restPattern, _ := strings.Cut(pattern[1:], "/")
		if path == "" || path[0] != '/' {
			return nil, false
		}
		if name, ok := strings.CutSuffix(want, "...}"); ok {
			return withParam(params, name[1:], path[1:]), true
		}
		got, _, _ := strings.Cut(path[1:], "/")
		switch {
		case strings.HasPrefix(want, "{") && got != "":
			params = withParam(params, want[1:len(want)-1], got)
		case want != got:
			return nil, false
		}
		path = path[1+len(got):]
		if restPattern == "" {
			break
		}
		pattern = "/" + restPattern
	}
	return params, path == ""
}

func withParam(params map[string]string, name, value string) map[string]string {
	if params == nil {
		params = map[string]string{}
	}
	params[name] = value
	return params
}
