package retail

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSmall holds the promises of the built-in data set, over several seeds.
func TestSmall(t *testing.T) {
	for seed := range int64(5) {
		d := Small(seed)
		if len(d.Users) != 12 || len(d.Orders) != 24 || len(d.Products) != 6 || len(d.Tasks) < 60 {
			t.Fatalf("%d users, %d orders, %d products, %d tasks",
				len(d.Users), len(d.Orders), len(d.Products), len(d.Tasks))
		}
		if !slices.EqualFunc(d.Tasks, Small(seed).Tasks, sameTask) ||
			Memory(d.Initial()).Hash() != Memory(Small(seed).Initial()).Hash() {
			t.Errorf("seed %d gives two data sets", seed)
		}
		used, refused, calls := map[string]int{}, 0, 0
		state, domain := Memory(d.Initial()), d.Domain()
		for _, task := range d.Tasks {
			result := mustRun(t, domain, task, state)
			state.Apply(result)
			refused += len(result.Errors)
			calls += len(task.Actions)
			for _, a := range task.Actions {
				used[a.Name]++
			}
			if task.ID%3 == 0 && (len(result.Errors) > 0 || len(result.Writes) == 0) {
				t.Errorf("seed %d: task %d of a popular order: %+v", seed, task.ID, result)
			}
		}
		if len(used) < 15 || refused*5 > calls {
			t.Errorf("seed %d: %d of %d calls refused, tools used: %v", seed, refused, calls, used)
		}
		if d.ContendedOrder() != "#S001" && d.ContendedOrder() != "#S002" {
			t.Errorf("seed %d: the contended order is %s, want a popular one", seed, d.ContendedOrder())
		}
	}
	if Memory(Small(1).Initial()).Hash() == Memory(Small(2).Initial()).Hash() {
		t.Error("two seeds give the same data")
	}
}

func sameTask(a, b Task) bool {
	return a.ID == b.ID && a.UserID == b.UserID && slices.EqualFunc(a.Actions, b.Actions, func(x, y Action) bool {
		return x.Name == y.Name && bytes.Equal(x.Arguments, y.Arguments)
	})
}

func TestInitial(t *testing.T) {
	shards := Small(1).Initial()
	if want := 12 + 24 + 2*12; len(shards) != want {
		t.Errorf("%d shards, want %d: users, orders and two indexes", len(shards), want)
	}
	if got := string(shards["shard:/emails/customer_01@example.com"]); got != `["customer_01"]` {
		t.Errorf("index by e-mail holds %s", got)
	}
	if got := string(shards["shard:/names/customer/01/00001"]); got != `["customer_01"]` {
		t.Errorf("index by name and zip holds %s", got)
	}
	for key, value := range shards {
		if canonical, err := Canonical(value); err != nil || !bytes.Equal(canonical, value) {
			t.Errorf("%s is not canonical: %s", key, value)
		}
	}
}

func TestKeys(t *testing.T) {
	for got, want := range map[string]string{
		OrderKey("#W1"):                  "shard:/orders/W1",
		OrderKey("W1"):                   "shard:/orders/W1",
		UserKey("a/b"):                   "shard:/users/a%2Fb",
		UserKey("*"):                     "shard:/users/%2A",
		EmailKey("A@Example.com"):        "shard:/emails/a@example.com",
		NameZipKey("Ann Lee", "O", "1A"): "shard:/names/ann%20lee/o/1a",
	} {
		if got != want {
			t.Errorf("key %s, want %s", got, want)
		}
	}
}

func TestCanonical(t *testing.T) {
	got, err := Canonical([]byte(` { "b" : [1464.0, 0.04999999999999716, 56], "a" : "<é&\u00e9>" } `))
	if want := `{"a":"<é&é>","b":[1464,0.04999999999999716,56]}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	if !Equal([]byte(`{"a":0.0,"b":1}`), []byte(`{"b":1.0,"a":0}`)) {
		t.Error("equal values are told apart")
	}
	for _, other := range []string{`{"a":0}`, `{"a":0,"b":"1"}`, `{"a":0,"b":1.0000001}`, `{`, `{"a":0,"b":1}x`} {
		if Equal([]byte(`{"a":0,"b":1}`), []byte(other)) {
			t.Errorf("%s is taken for equal", other)
		}
	}
}

func TestToolErrorJSON(t *testing.T) {
	var e ToolError
	if err := json.Unmarshal([]byte(`[3,"Error: x"]`), &e); err != nil || e != (ToolError{3, "Error: x"}) {
		t.Errorf("read %v, %v", e, err)
	}
	if data, err := json.Marshal(e); err != nil || string(data) != `[3,"Error: x"]` {
		t.Errorf("written %s, %v", data, err)
	}
	for _, bad := range []string{`[3]`, `[3,"x",1]`, `["x",3]`, `{}`, `null`} {
		if err := json.Unmarshal([]byte(bad), &e); err == nil && bad != "null" {
			t.Errorf("%s is read as %v", bad, e)
		}
	}
}

// writeSet writes a data set in the layout that Load reads.
func writeSet(t *testing.T, d *Dataset) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]any{
		"users.json": d.Users, "orders.json": d.Orders, "products.json": d.Products, "tasks-own.json": d.Tasks,
	} {
		data, err := json.MarshalIndent(content, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLoadWritten(t *testing.T) {
	want := Small(3)
	got, err := Load(writeSet(t, want), "own")
	if err != nil {
		t.Fatal(err)
	}
	if diff := Memory(got.Initial()).Diff(want.Initial()); len(diff) > 0 || len(got.Tasks) != len(want.Tasks) {
		t.Errorf("loaded %d tasks, shards that differ: %v", len(got.Tasks), diff)
	}
}

// TestLoadRefuses: each broken file is named in the error, with what is wrong in it.
func TestLoadRefuses(t *testing.T) {
	for _, c := range []struct{ file, old, new, want string }{
		{"users.json", `"email"`, `"mail"`, "record customer_01: decode JSON"},
		{"users.json", `"email": "customer_01@example.com"`, `"email": ""`, "needs an id, an e-mail address"},
		{"users.json", `"#S001"`, `"#X"`, "has order #X, which is not there"},
		{"users.json", `"id": "gift_01"`, `"id": "gift_1"`, "payment method gift_01"},
		{"orders.json", `"status": "pending",`, ``, "lacks fields"},
		{"orders.json", `"order_id": "#S001"`, `"order_id": "#S1"`, `order "#S001" says that it is "#S1"`},
		{"orders.json", `"user_id": "customer_01"`, `"user_id": "nobody"`, "user nobody, who is not there"},
		{"products.json", `"product_id": "product_01"`, `"product_id": "p"`, "says that it is p"},
		{"tasks-own.json", `"think"`, `"sing"`, `there is no tool "sing"`},
		{"tasks-own.json", `"id": 1,`, `"id": 0,`, "two tasks have the id 0"},
		{"tasks-own.json", `[`, `{`, "tasks-own.json: decode JSON"},
	} {
		dir := writeSet(t, Small(1))
		path := filepath.Join(dir, c.file)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		broken := bytes.Replace(data, []byte(c.old), []byte(c.new), 1)
		if bytes.Equal(broken, data) {
			t.Fatalf("%s has no %s", c.file, c.old)
		}
		if err := os.WriteFile(path, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir, "own"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s: error %v, want %q", c.file, c.new, err, c.want)
		}
	}
}

func TestLoadMissing(t *testing.T) {
	dir := writeSet(t, Small(1))
	for split, want := range map[string]string{
		"test": "splits there: own", "": "one of: own", "../own": "one of: own",
	} {
		if _, err := Load(dir, split); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("split %q: error %v, want %q", split, err, want)
		}
	}
	_, err := Load(filepath.Join(dir, "nowhere"), "own")
	if err == nil || !strings.Contains(err.Error(), "users.json") {
		t.Errorf("no folder: error %v, want the missing file", err)
	}
}
