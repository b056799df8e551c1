package retail

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxFile bounds one file of a data set, in bytes.
const maxFile = 256 << 20

// Load reads a data set in the tau-retail layout: users.json, orders.json, products.json, tasks-<split>.json and,
// if it is there, expected-<split>.json. A record must come back as it was when it is written again, references
// must lead somewhere, and tasks may name only tools that exist; the error says which file and record does not
// keep to that.
func Load(dir, split string) (*Dataset, error) {
	if split == "" || strings.ContainsAny(split, `/\*?[.`) {
		return nil, fmt.Errorf("split %q: give the name between tasks- and .json, one of: %s", split, splits(dir))
	}
	d := &Dataset{Name: filepath.Base(dir) + " " + split}
	var err error
	if d.Users, err = loadRecords[User](dir, "users.json"); err != nil {
		return nil, err
	}
	if d.Orders, err = loadRecords[Order](dir, "orders.json"); err != nil {
		return nil, err
	}
	if d.Products, err = loadRecords[Product](dir, "products.json"); err != nil {
		return nil, err
	}
	if err := loadFile(dir, "tasks-"+split+".json", &d.Tasks); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w; splits there: %s", err, splits(dir))
		}
		return nil, err
	}
	err = loadFile(dir, "expected-"+split+".json", &d.Expected)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := d.validate(); err != nil {
		return nil, fmt.Errorf("data set in %s: %w", dir, err)
	}
	return d, nil
}

// splits names the splits that a folder has tasks for.
func splits(dir string) string {
	files, err := filepath.Glob(filepath.Join(dir, "tasks-*.json"))
	if err != nil || len(files) == 0 {
		return "none"
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(f), "tasks-"), ".json")
	}
	return strings.Join(files, ", ")
}

func loadFile(dir, name string, into any) error {
	path := filepath.Join(dir, name)
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("data set in the tau-retail layout: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if len(data) > maxFile {
		return fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	if err := decodeStrict(data, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// loadRecords reads an object of records and holds each against its own text, so that a field which this package
// does not know, or a number which it would write differently, is found here and not in a comparison later.
func loadRecords[T any](dir, name string) (map[string]T, error) {
	var raw map[string]json.RawMessage
	if err := loadFile(dir, name, &raw); err != nil {
		return nil, err
	}
	records := make(map[string]T, len(raw))
	for _, id := range slices.Sorted(maps.Keys(raw)) {
		var record T
		if err := decodeStrict(raw[id], &record); err != nil {
			return nil, fmt.Errorf("%s, record %s: %w", filepath.Join(dir, name), id, err)
		}
		want, errRead := Canonical(raw[id])
		got, errWrite := marshal(record)
		if err := errors.Join(errRead, errWrite); err != nil {
			return nil, fmt.Errorf("%s, record %s: %w", filepath.Join(dir, name), id, err)
		}
		if !bytes.Equal(got, want) {
			return nil, fmt.Errorf("%s, record %s lacks fields: read %s, would be written as %s",
				filepath.Join(dir, name), id, want, got)
		}
		records[id] = record
	}
	return records, nil
}

// validate checks what the tools rely on.
func (d *Dataset) validate() error {
	if len(d.Users) == 0 || len(d.Orders) == 0 || len(d.Products) == 0 || len(d.Tasks) == 0 {
		return fmt.Errorf("no empty file is allowed: %d users, %d orders, %d products, %d tasks",
			len(d.Users), len(d.Orders), len(d.Products), len(d.Tasks))
	}
	for id, p := range d.Products {
		if p.ProductID != id {
			return fmt.Errorf("product %s says that it is %s", id, p.ProductID)
		}
	}
	if err := d.validateUsers(); err != nil {
		return err
	}
	for id, o := range d.Orders {
		if o.OrderID != id || !strings.HasPrefix(id, "#") || !nameable(id[1:]) {
			return fmt.Errorf("order %q says that it is %q; an id is '#' and a name", id, o.OrderID)
		}
		if _, ok := d.Users[o.UserID]; !ok {
			return fmt.Errorf("order %s belongs to user %s, who is not there", id, o.UserID)
		}
	}
	return d.validateTasks()
}

func (d *Dataset) validateUsers() error {
	for id, u := range d.Users {
		if !nameable(id, u.Email, u.Name.First, u.Name.Last, u.Address.Zip) {
			return fmt.Errorf("user %q needs an id, an e-mail address, a name and a zip that are neither empty nor "+
				"dots nor longer than %d bytes", id, maxID)
		}
		for _, orderID := range u.Orders {
			if _, ok := d.Orders[orderID]; !ok {
				return fmt.Errorf("user %s has order %s, which is not there", id, orderID)
			}
		}
		for methodID, m := range u.PaymentMethods {
			if m.ID != methodID || m.isGiftCard() != (m.Balance != nil) {
				return fmt.Errorf("user %s, payment method %s: its id must be the same, and gift cards, no others, "+
					"have a balance", id, methodID)
			}
		}
	}
	return nil
}

func (d *Dataset) validateTasks() error {
	seen := map[int]bool{}
	for _, task := range d.Tasks {
		if seen[task.ID] {
			return fmt.Errorf("two tasks have the id %d", task.ID)
		}
		seen[task.ID] = true
		if len(task.Actions) > maxActions {
			return fmt.Errorf("task %d has more than %d actions", task.ID, maxActions)
		}
		for i, a := range task.Actions {
			if !slices.Contains(Tools(), a.Name) {
				return fmt.Errorf("task %d, action %d: there is no tool %q", task.ID, i, a.Name)
			}
		}
	}
	for _, e := range d.Expected {
		if !seen[e.ID] {
			return fmt.Errorf("a result is expected of task %d, which is not there", e.ID)
		}
	}
	return nil
}
