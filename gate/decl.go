package gate

import (
	"encoding/json"

	"github.com/hence-dev/hence/sequencer"
)

// The kinds of adapter that a policy can declare; each has its specification below.
const (
	KindHTTP  = "http"
	KindSMTP  = "smtp"
	KindFile  = "file"
	KindExec  = "exec"
	KindSQL   = "sql"
	KindShard = "shard"
	KindMCP   = "mcp"
)

// Decl is one tool's adapter as the policy declares it. The policy has checked the specification's form (known keys,
// templates that parse, a declared host, database, root) before it hands the declaration over.
type Decl struct {
	Tool  string          // the declaration's name or glob, for messages
	Kind  string          // one of the Kind constants
	Spec  json.RawMessage // the JSON of HTTPSpec, SMTPSpec, FileSpec, ExecSpec, SQLSpec, ShardSpec or MCPSpec
	Class sequencer.Class
	Env   Env
	// Keep are the parts of an answer's result that the compensation is made of: what the sink said there is data, and
	// stays even if it looks like a secret. An empty path is the whole result.
	Keep [][]string
}

// Offer is one tool as its policy describes it to those who call it.
type Offer struct {
	Name        string
	Description string // empty: the policy has none
	Class       sequencer.Class
	Arguments   json.RawMessage // JSON Schema of an object
}

// Env is what all adapters of one policy share. Nothing in it is a secret; those are asked for by name when needed.
type Env struct {
	Hosts     []string // host:port in lower case; http calls no other
	Root      string   // absolute directory; file touches nothing outside
	Mail      *Mail    // nil: none declared
	Databases map[string]Database
	// Secret returns the value of a declared secret; each call reads it, so that it can be rotated.
	Secret func(name string) (string, error)
}

// Mail is the server that takes mails.
type Mail struct {
	Server         string `json:"server"` // host:port
	From           string `json:"from"`
	User           string `json:"user,omitempty"`
	PasswordSecret string `json:"password_secret,omitempty"`
	TLS            string `json:"tls"` // "none", "starttls" or "tls"
}

// Database is one that sql may use.
type Database struct {
	DSNSecret string `json:"dsn_secret"`
}

// Strings of the specifications are templates over the call (gate/policy/template): {order_id} and {to.0.name} are
// arguments, {$key}, {$tx}, {$index} the call's own, {$saved.path} what the undone call's answer saved, and, in
// headers, environment and standard input only, {$secret.NAME}. In a tree a string that is one placeholder and nothing
// else becomes the value itself, so a number stays a number.

// HTTPSpec is one request. Idempotency-Key is sent when the call has a key, and Hence-Compensates when it undoes one.
// In a path a value is one segment; with the filter path it may be several. None may climb, or be empty.
type HTTPSpec struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"` // absolute; values are escaped for the place where they stand
	Headers map[string]string `json:"headers,omitempty"`
	Body    json.RawMessage   `json:"body,omitempty"` // a tree; absent: the arguments, for POST, PUT and PATCH
	// Refused are the statuses that say that nothing happened; absent: those that prove it (docs/policy.md).
	Refused []int `json:"refused,omitempty"`
	Done    []int `json:"done,omitempty"` // further statuses that say that it happened; absent: 2xx only
	// An answer that says by its status that it happened says by its body that nothing did if RefusedWhen holds, and
	// nothing at all unless DoneWhen holds.
	RefusedWhen When        `json:"refused_when,omitempty"`
	DoneWhen    When        `json:"done_when,omitempty"`
	Replayed    string      `json:"replayed,omitempty"` // header that marks the answer kept under the key; see adapters
	LookUp      *HTTPLookUp `json:"lookup,omitempty"`
}

// When is what the JSON object of an answer must say: at each path the value, or one of a list of values. What is
// absent is null.
type When map[string]json.RawMessage

// HTTPLookUp asks what became of a call: 2xx it happened, a status of Absent (default 404) it never arrived.
type HTTPLookUp struct {
	Method     string `json:"method,omitempty"` // GET when empty
	URL        string `json:"url"`
	Absent     []int  `json:"absent,omitempty"`
	AbsentWhen When   `json:"absent_when,omitempty"` // and only with such a body
	FoundWhen  When   `json:"found_when,omitempty"`  // the body of a 2xx that says that it happened; absent: any
}

// SMTPSpec is one mail. Its Message-ID is made of the call's key.
type SMTPSpec struct {
	To      []string `json:"to"`
	Cc      []string `json:"cc,omitempty"`
	From    string   `json:"from,omitempty"` // absent: the server's
	Subject string   `json:"subject"`
	Text    string   `json:"text"`
}

// The operations of FileSpec; those of ShardSpec are OpRead and OpWrite. OpRestore puts back what the undone call
// saved; it takes nothing else.
const (
	OpRead    = "read"
	OpWrite   = "write"
	OpAppend  = "append"
	OpMove    = "move"
	OpDelete  = "delete"
	OpRestore = "restore"
)

// FileSpec is one operation on a file under the root. A value in a path may hold slashes, but none may leave the root.
type FileSpec struct {
	Op      string `json:"op"`
	Path    string `json:"path,omitempty"`    // not for restore
	To      string `json:"to,omitempty"`      // move
	Content string `json:"content,omitempty"` // write, append
}

// ExecSpec runs a program without a shell: each entry of Argv is exactly one argument, whatever its values hold. A
// value at the start of an entry does not begin with '-', unless an entry "--" stands before it with no literal entry
// between them, or Options names it.
type ExecSpec struct {
	Argv    []string          `json:"argv"`
	Options []string          `json:"options,omitempty"` // arguments that may be options of the program
	Dir     string            `json:"dir,omitempty"`
	Env     map[string]string `json:"env,omitempty"` // all of it: nothing is inherited but PATH and HOME
	Stdin   json.RawMessage   `json:"stdin,omitempty"`
	Refused []int             `json:"refused,omitempty"` // exit codes that say that nothing happened
	LookUp  *ExecLookUp       `json:"lookup,omitempty"`
}

// ExecLookUp asks a program what became of a call: exit code 0 it happened, one of Absent (default 1) it did not.
type ExecLookUp struct {
	Argv   []string `json:"argv"`
	Absent []int    `json:"absent,omitempty"`
}

// MCPSpec is one tool of an MCP server that this process reaches, or all of a server's. The arguments are the call's.
type MCPSpec struct {
	Server string `json:"server"`           // as the configuration names it
	Tool   string `json:"tool,omitempty"`   // absent: the called name, without "server__" before it
	Schema string `json:"schema,omitempty"` // hash of the tool's schemas; with other ones it is not called
	Error  string `json:"error,omitempty"`  // what a result with isError says of an effect: see the constants
}

// What an error that a tool reports of itself says of the call. The protocol does not say.
const (
	ErrorUnknown = "unknown" // it may have acted; the default
	ErrorRefused = "refused" // it did nothing
)

// SQLSpec is one statement. Values are parameters only.
type SQLSpec struct {
	Database  string   `json:"database"`
	Statement string   `json:"statement"`        // with $1, $2, …; no templates
	Params    []string `json:"params,omitempty"` // each a template
	// Save runs before the statement in the same transaction; its rows are what the answer saves.
	Save *SQLQuery `json:"save,omitempty"`
	// Rows is how many rows the statement must affect; any other number is rolled back and refused.
	Rows   *int       `json:"rows,omitempty"`
	LookUp *SQLLookUp `json:"lookup,omitempty"`
}

// SQLQuery is one statement that returns rows.
type SQLQuery struct {
	Statement string   `json:"statement"`
	Params    []string `json:"params,omitempty"`
}

// SQLLookUp asks what became of a call: a row says that it happened, none that it never arrived.
type SQLLookUp = SQLQuery

// ShardSpec is one read or write of a shard, which the transaction itself makes.
type ShardSpec struct {
	Op      string          `json:"op"`
	Scope   string          `json:"scope"`
	Type    string          `json:"type,omitempty"`    // write: media type; absent: application/json
	Content json.RawMessage `json:"content,omitempty"` // write: a tree; absent: the arguments
}
