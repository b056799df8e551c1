package adapters

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/hence-dev/hence/gate"
	"github.com/hence-dev/hence/gate/policy/template"
)

// maxRows is how many rows a statement may return.
const maxRows = 10_000

type sqlAdapter struct {
	spec       gate.SQLSpec
	env        gate.Env
	main       query
	save, look *query
	keep       [][]string
}

// query is one statement and its values.
type query struct {
	text   string
	params []template.Template
	rows   bool // it returns rows
}

func newSQL(d gate.Decl) (gate.Adapter, error) {
	spec, err := readSpec[gate.SQLSpec](d)
	if err != nil {
		return nil, err
	}
	if _, ok := d.Env.Databases[spec.Database]; !ok {
		return nil, fmt.Errorf("the database %q is not declared: add it to the policy's databases", spec.Database)
	}
	p := &parser{}
	a := &sqlAdapter{spec: spec, env: d.Env, save: p.query("save", spec.Save), look: p.query("lookup", spec.LookUp),
		keep: d.Keep}
	a.main = *p.query("statement", &gate.SQLQuery{Statement: spec.Statement, Params: spec.Params})
	for _, q := range []*query{a.save, a.look} {
		if q != nil && !q.rows {
			return nil, errors.New("save and lookup: write a SELECT, or a statement with RETURNING")
		}
	}
	return a, p.err
}

// query reads a statement. A template inside of it is refused: values reach the server as parameters only.
func (p *parser) query(what string, q *gate.SQLQuery) *query {
	if q == nil {
		return nil
	}
	t, err := template.Parse(q.Statement)
	if p.err == nil && err == nil && len(t.Placeholders()) > 0 {
		p.err = fmt.Errorf("%s: %s stands inside the SQL text: write $1 there and the template under params",
			what, t.Placeholders()[0])
	}
	if p.err == nil && strings.TrimSpace(q.Statement) == "" {
		p.err = fmt.Errorf("%s: the statement is empty", what)
	}
	if p.err == nil && regexp.MustCompile(`(?i)^\s*(begin|start|commit|end|rollback|abort|savepoint|release)\b`).
		MatchString(q.Statement) {
		p.err = fmt.Errorf("%s: the adapter begins and ends the transaction itself: leave that statement out", what)
	}
	returns := regexp.MustCompile(`(?is)^\s*(select|with|values|table|show)\b|\breturning\b`)
	return &query{text: q.Statement, params: p.list(what+" params", q.Params), rows: returns.MatchString(q.Statement)}
}

// values are a query's parameters. Lists and objects go as JSON text; the server reads a text as the type it wants.
func (q *query) values(v template.Values) ([]any, error) {
	out := make([]any, len(q.params))
	for i, t := range q.params {
		value, err := t.Value(v)
		if err != nil {
			return nil, notSent("the parameter $%d: %v", i+1, err)
		}
		switch value := value.(type) {
		case json.Number:
			out[i] = value.String()
		case map[string]any, []any:
			out[i] = string(toJSON(value))
		case bool:
			out[i] = fmt.Sprint(value)
		default:
			out[i] = value
		}
	}
	return out, nil
}

// Check makes the statement's parameters.
func (a *sqlAdapter) Check(c gate.Call) error {
	v, err := values(c)
	if err == nil {
		_, err = a.main.values(v)
	}
	if err == nil && a.save != nil {
		_, err = a.save.values(v)
	}
	return err
}

// Call runs the statement in one transaction, with the row that makes its key unique.
func (a *sqlAdapter) Call(ctx context.Context, c gate.Call) (gate.Answer, error) {
	v, err := values(c)
	if err != nil {
		return gate.Answer{}, err
	}
	s := newSecrets(a.env, a.keep...)
	answer, err := a.in(ctx, s, c, func(tx *sql.Tx) (gate.Answer, error) { return a.apply(ctx, tx, c, v) })
	return s.answer(answer), err
}

func (a *sqlAdapter) apply(ctx context.Context, tx *sql.Tx, c gate.Call, v template.Values) (gate.Answer, error) {
	if c.Key != "" {
		if answer, done, err := claim(ctx, tx, c); done || err != nil {
			return answer, err
		}
	}
	if c.Compensates != "" {
		came, err := forbid(ctx, tx, c.Compensates)
		if err != nil {
			return gate.Answer{}, err
		}
		if c.ForbidOnly && !came {
			return note(ctx, tx, c, gate.Answer{Detail: nothingToUndo})
		}
	}
	var answer gate.Answer
	if a.save != nil {
		rows, _, err := a.save.run(ctx, tx, v)
		if err != nil {
			return gate.Answer{}, err
		}
		answer.Saved = toJSON(map[string]any{"rows": rows})
	}
	rows, affected, err := a.main.run(ctx, tx, v)
	if err != nil {
		return gate.Answer{}, err
	}
	if a.spec.Rows != nil && affected != int64(*a.spec.Rows) {
		return gate.Answer{}, refusal{why: fmt.Sprintf("%d rows are affected and not %d", affected, *a.spec.Rows)}
	}
	said := map[string]any{"affected": affected}
	if rows != nil {
		said["rows"] = rows
		if answer.Saved == nil {
			answer.Saved = toJSON(map[string]any{"rows": rows})
		}
	}
	answer.Result = toJSON(said)
	if len(answer.Result) > MaxAnswer || len(answer.Saved) > MaxAnswer {
		return gate.Answer{}, refusal{why: fmt.Sprintf("the statement returns more than %d bytes", MaxAnswer)}
	}
	return note(ctx, tx, c, answer)
}

// note keeps the answer under the call's key.
func note(ctx context.Context, tx *sql.Tx, c gate.Call, answer gate.Answer) (gate.Answer, error) {
	if c.Key == "" {
		return answer, nil
	}
	_, err := tx.ExecContext(ctx, `UPDATE hence_effects SET result = $2 WHERE key = $1`, c.Key, string(toJSON(answer)))
	return answer, err
}

// refusal rolls the transaction back: the sink says no.
type refusal struct {
	why string
	key bool // it is what the record under the key says
}

// Error says why.
func (r refusal) Error() string { return r.why }

// claim takes a call's key. A caller with the same one waits here until this transaction ends.
func claim(ctx context.Context, tx *sql.Tx, c gate.Call) (gate.Answer, bool, error) {
	request := fingerprint(c)
	r, err := tx.ExecContext(ctx, `INSERT INTO hence_effects (key, request) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING`,
		c.Key, request)
	if err != nil {
		return gate.Answer{}, false, err
	}
	if n, err := r.RowsAffected(); err != nil || n == 1 {
		return gate.Answer{}, false, err
	}
	answer, before, compensated, err := stored(ctx, tx, c.Key)
	switch {
	case err != nil:
		return gate.Answer{}, false, err
	case compensated:
		return gate.Answer{}, false, refusal{"the call with this key was compensated", true}
	case before != request:
		return gate.Answer{}, false, refusal{"the key was used for a call with other arguments", true}
	}
	answer.Detail = "it had happened before"
	return answer, true, nil
}

func stored(ctx context.Context, tx *sql.Tx, key string) (a gate.Answer, request string, compensated bool, err error) {
	var text sql.NullString
	// The lock makes this a transaction that writes: its commit waits for a standby as that of the first call should
	// have.
	row := tx.QueryRowContext(ctx, `SELECT result, request, compensated FROM hence_effects WHERE key = $1 FOR UPDATE`,
		key)
	if err := row.Scan(&text, &request, &compensated); err != nil {
		return a, "", false, err
	}
	if !text.Valid {
		a.Absent = true // a compensated key whose call never came
		return a, request, compensated, nil
	}
	if err := json.Unmarshal([]byte(text.String), &a); err != nil {
		return a, "", false, fmt.Errorf("reading the stored answer: %w", err)
	}
	return a, request, compensated, nil
}

// forbid closes a key for good, also one that never came, and says whether it came.
func forbid(ctx context.Context, tx *sql.Tx, key string) (came bool, err error) {
	row := tx.QueryRowContext(ctx, `INSERT INTO hence_effects (key, request, compensated) VALUES ($1, '', true)
		ON CONFLICT (key) DO UPDATE SET compensated = true RETURNING result IS NOT NULL`, key)
	err = row.Scan(&came)
	return came, err
}

// run returns the rows, nil when the statement returns none, and how many it affected.
func (q *query) run(ctx context.Context, tx *sql.Tx, v template.Values) ([]map[string]any, int64, error) {
	params, err := q.values(v)
	if err != nil {
		return nil, 0, err
	}
	// Prepared also without parameters: the driver would else send the text as it is, which may hold several statements.
	prepared, err := tx.PrepareContext(ctx, q.text)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = prepared.Close() }() // it ends with the connection
	if !q.rows {
		r, err := prepared.ExecContext(ctx, params...)
		if err != nil {
			return nil, 0, err
		}
		n, err := r.RowsAffected()
		return nil, n, err
	}
	rows, err := prepared.QueryContext(ctx, params...)
	if err != nil {
		return nil, 0, err
	}
	out, err := scan(rows)
	if closed := rows.Close(); err == nil {
		err = closed
	}
	return out, int64(len(out)), err
}

func scan(rows *sql.Rows) ([]map[string]any, error) {
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	out, size := []map[string]any{}, 0
	for rows.Next() {
		cells := make([]any, len(names))
		into := make([]any, len(names))
		for i := range cells {
			into[i] = &cells[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		row := make(map[string]any, len(names))
		for i, name := range names {
			row[name] = cell(cells[i])
			if text, ok := row[name].(string); ok {
				size += len(text)
			}
		}
		if out = append(out, row); len(out) > maxRows || size > MaxAnswer {
			return nil, refusal{why: fmt.Sprintf("the statement returns more than %d rows or %d bytes", maxRows, MaxAnswer)}
		}
	}
	return out, rows.Err()
}

func cell(v any) any {
	switch v := v.(type) {
	case []byte:
		if json.Valid(v) {
			return json.RawMessage(v)
		}
		return string(v)
	case time.Time:
		return v.Format(time.RFC3339Nano)
	case float64, float32:
		text := fmt.Sprint(v)
		if json.Valid([]byte(text)) {
			return json.Number(text)
		}
		return text // NaN and the infinities
	}
	return v
}

// LookUp asks the declared query, or whether the key is taken.
func (a *sqlAdapter) LookUp(ctx context.Context, c gate.Call) (gate.Answer, error) {
	if a.look == nil && c.Key == "" {
		return gate.Answer{}, gate.ErrNoLookup
	}
	v, err := values(c)
	if err != nil {
		return gate.Answer{}, err
	}
	s := newSecrets(a.env, a.keep...)
	answer, err := a.in(ctx, s, c, func(tx *sql.Tx) (gate.Answer, error) {
		if c.Key != "" {
			return peek(ctx, tx, c)
		}
		rows, _, err := a.look.run(ctx, tx, v)
		if err != nil || len(rows) == 0 {
			return gate.Answer{Absent: true}, err
		}
		return gate.Answer{Result: toJSON(map[string]any{"rows": rows})}, nil
	})
	if err == nil && answer.Refused && !answer.AboutKey { // a look-up that failed says nothing of the call
		return gate.Answer{}, unknown("looking the call up: %s", s.clean(answer.Detail))
	}
	return s.answer(answer), err
}

// peek takes the key to wait for a call that is under way, and leaves nothing behind.
func peek(ctx context.Context, tx *sql.Tx, c gate.Call) (gate.Answer, error) {
	if _, err := tx.ExecContext(ctx, `SAVEPOINT peek`); err != nil {
		return gate.Answer{}, err
	}
	r, err := tx.ExecContext(ctx, `INSERT INTO hence_effects (key, request) VALUES ($1, '') ON CONFLICT (key) DO NOTHING`,
		c.Key)
	if err != nil {
		return gate.Answer{}, err
	}
	if n, err := r.RowsAffected(); err != nil || n == 1 {
		_, undone := tx.ExecContext(ctx, `ROLLBACK TO SAVEPOINT peek`)
		return gate.Answer{Absent: true}, errors.Join(err, undone)
	}
	answer, request, compensated, err := stored(ctx, tx, c.Key)
	switch {
	case err != nil:
	case compensated:
		answer.Detail = "compensated since"
	case request != fingerprint(c):
		return gate.Answer{}, refusal{"the key was used for a call with other arguments", true}
	}
	return answer, err
}
