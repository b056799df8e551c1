package template

import (
	"errors"
	"strings"
	"testing"
)

func values(tb testing.TB, text string) Values {
	tb.Helper()
	names, err := Object([]byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return Values{Names: names}
}

func TestExpand(t *testing.T) {
	v := values(t, `{"s":"a b","n":17,"f":17.50,"e":1.7e1,"z":-0,"big":123456789012345678901234567890,"b":true,"no":null,
		"list":["x",{"k":"y"}],"mail":"A B <A.b+tag@Example.COM>","$key":"k"}`)
	for _, c := range []struct{ text, want string }{
		{"", ""}, {"plain", "plain"}, {"{s}", "a b"}, {"<{s}-{n}>", "<a b-17>"}, {"{n}{f}{e}{z}", "1717.5170"},
		{"{big}", "123456789012345678901234567890"}, {"{b}", "true"}, {"{no?}|{gone?}", "|"}, {"{list.0}{list.1.k}", "xy"},
		{"{{s}}", "{s}"}, {"{{{s}}}", "{a b}"}, {"{$key}", "k"}, {"{mail|mail}", "a.b@example.com"}, {"{list.7?}", ""},
	} {
		tpl, err := Parse(c.text)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if got, err := tpl.Expand(v, nil); err != nil || got != c.want {
			t.Errorf("%q gives %q, %v; want %q", c.text, got, err, c.want)
		}
	}
	for _, text := range []string{"{gone}", "{no}", "{list}", "{s.x}", "{list.2}", "{list.-1}", "{list.00}",
		"{list.x}", "{$secret.a}", "{s|mail}", "{s|host}"} {
		tpl, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := tpl.Expand(v, nil); !errors.Is(err, ErrValue) {
			t.Errorf("%q gives %q, %v", text, got, err)
		}
	}
}

func TestSyntax(t *testing.T) {
	for _, text := range []string{"{", "}", "{}", "{a", "a}", "{a b}", "{a|}", "{a|nope}", "{a..b}", "{.a}", "{$}",
		"{a.$b}",
		"{é}", strings.Repeat("{a}", MaxPlaceholders+1), strings.Repeat("a", MaxBytes+1)} {
		if _, err := Parse(text); !errors.Is(err, ErrSyntax) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

func TestFilters(t *testing.T) {
	for _, c := range []struct {
		f          Filter
		text, want string
	}{
		{Lower, "ÀB", "àb"}, {Fold, "Straße", "strasse"}, {Fold, "\u212aey", "key"}, {Fold, "ＡＢ", "ab"},
		{NFC, "e\u0301", "\u00e9"},
		{MailFilter, "A@B.C", "a@b.c"}, {MailFilter, " a+b+c@d.e. ", ""}, {MailFilter, "+x@d.e", "+x@d.e"},
		{PathFilter, "/a//./b/../c/", "a/c"}, {PathFilter, "", ""}, {PathFilter, "..", "error"},
		{PathFilter, "a\x00", "error"},
		{HostFilter, "https://A.Example.:443/x", "a.example"}, {HostFilter, "A.example:0080", "a.example:80"},
		{HostFilter, "http://a.example:80", "a.example"}, {HostFilter, "https://a.example:80", "a.example:80"},
		{HostFilter, "https://u:p@a.example", "a.example"}, {HostFilter, "http://[::1]:8080/", "[::1]:8080"},
		{HostFilter, "", "error"}, {HostFilter, "http://[0:0:0:0:0:0:0:1]", "::1"}, {HostFilter, "[::1]", "::1"},
		{MailFilter, "\"@x:a\"@b.c", "error"}, {MailFilter, "\"a@b\"@c.d", "error"},
		{URLFilter, "https://A/b/%63/../d?q#f", "a/b/d"}, {URLFilter, "A/b", "a/b"}, {URLFilter, "https://a/..", "error"},
	} {
		got, err := c.f.apply(c.text)
		joined := strings.Join(got, "/")
		switch {
		case c.want == "error":
			if err == nil {
				t.Errorf("%s of %q is %q", c.f, c.text, joined)
			}
		case c.want == "" && c.f == MailFilter: // net/mail refuses it
			if err == nil && joined != "a@d.e" {
				t.Errorf("%s of %q is %q", c.f, c.text, joined)
			}
		case err != nil || joined != c.want:
			t.Errorf("%s of %q is %q, %v; want %q", c.f, c.text, joined, err, c.want)
		}
	}
}

func TestTree(t *testing.T) {
	var tree Tree
	const text = `{"n":"{n}","t":"no {n}","l":["{l}",1.50,null,{"o":"{gone?}"}],"x":"{gone?}"}`
	if err := tree.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	got, err := tree.JSON(values(t, `{"n":17,"l":[1,{"a":"<"}]}`))
	want := `{"l":[[1,{"a":"\u003c"}],1.50,null,{}],"n":17,"t":"no 17"}`
	if err != nil || string(got) != want {
		t.Fatalf("%s, %v; want %s", got, err, want)
	}
	if n := len(tree.Placeholders()); n != 5 {
		t.Errorf("%d placeholders", n)
	}
	if _, err := tree.JSON(values(t, `{"n":17}`)); !errors.Is(err, ErrValue) {
		t.Error(err)
	}
	if err := tree.UnmarshalJSON([]byte(`{"a":"{"}`)); !errors.Is(err, ErrSyntax) {
		t.Error(err)
	}
	secret := Values{Secret: func(name string) (string, error) { return "s-" + name, nil }}
	tpl, err := Parse("Bearer {$secret.a}")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := tpl.Expand(secret, nil); err != nil || text != "Bearer s-a" {
		t.Errorf("%q, %v", text, err)
	}
}
