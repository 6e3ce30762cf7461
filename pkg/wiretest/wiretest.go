// Package wiretest keeps the JSON of types that outlive the code that wrote them:
// rows of the store, payloads of flows, files of a run, and what programs say to
// each other. A deploy and the way back from it have two versions read each
// other's, so a field may only be added, and one that is not known is passed over.
package wiretest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// Kind is one type that is kept.
type Kind struct {
	Name string // of its file
	// Zero makes a pointer to an empty value.
	Zero func() any
	// Decode is how the product reads it.
	Decode func(b []byte, v any) error
}

// Of returns the kind of T that is read by decode, json.Unmarshal when it is nil.
func Of[T any](name string, decode func([]byte) (T, error)) Kind {
	k := Kind{Name: name, Zero: func() any { return new(T) }, Decode: json.Unmarshal}
	if decode != nil {
		k.Decode = func(b []byte, v any) (err error) {
			*v.(*T), err = decode(b)
			return err
		}
	}
	return k
}

// Keep holds every kind against its file in dir, in which each field has a value.
// It fails when a field was removed, renamed or given another form, and when the
// product refuses what it does not know. A field that the file lacks is logged: it
// is held from when UPDATE=1 has added it, which takes nothing out.
func Keep(t *testing.T, dir string, kinds ...Kind) {
	t.Helper()
	known := []string{}
	for _, k := range kinds {
		known = append(known, k.Name+".json")
		t.Run(k.Name, func(t *testing.T) { keep(t, filepath.Join(dir, k.Name+".json"), k) })
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !slices.Contains(known, f.Name()) {
			t.Errorf("%s is kept of a type that nobody reads any more; what was written by it may still be there", f.Name())
		}
	}
}

// Problems is what Keep has against a kind and its file in dir.
func Problems(dir string, k Kind) []string {
	all, _, err := problems(filepath.Join(dir, k.Name+".json"), k, false)
	if err != nil {
		all = append(all, err.Error())
	}
	return all
}

func keep(t *testing.T, file string, k Kind) {
	t.Helper()
	all, added, err := problems(file, k, os.Getenv("UPDATE") == "1")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range added {
		t.Logf("%s in its file, where UPDATE=1 puts it", a)
	}
	for _, p := range all {
		t.Error(p)
	}
}

func problems(file string, k Kind, update bool) (all, added []string, err error) {
	full := k.Zero()
	fill(reflect.ValueOf(full).Elem(), nil)
	now, err := json.MarshalIndent(full, "", "  ")
	if err != nil {
		return nil, nil, err
	}
	now = append(now, '\n')
	kept, err := os.ReadFile(file)
	if update && os.IsNotExist(err) {
		kept, err = now, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w (UPDATE=1 writes it)", err)
	}
	lost, err := Lost(kept, now)
	if err != nil {
		return nil, nil, err
	}
	for _, l := range lost {
		all = append(all, l+": another version has it so; add a field beside it instead")
	}
	if added, err = Lost(now, kept); err != nil || len(all) > 0 {
		return all, added, err
	}
	if update {
		added = nil
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return nil, nil, err
		}
		if err := os.WriteFile(file, now, 0o644); err != nil { //nolint:gosec // it is source
			return nil, nil, err
		}
		kept = now
	}
	next, err := later(kept)
	if err != nil {
		return nil, nil, err
	}
	for what, b := range map[string][]byte{"the version that is kept": kept, "a later version": next} {
		got := k.Zero()
		if err := k.Decode(b, got); err != nil {
			all = append(all, fmt.Sprintf("what %s wrote is not read: %v", what, err))
			continue
		}
		again, err := json.Marshal(got)
		if err != nil {
			return nil, nil, err
		}
		if lost, err = Lost(kept, again); err != nil {
			return nil, nil, err
		}
		for _, l := range lost {
			all = append(all, fmt.Sprintf("read from what %s wrote, %s", what, l))
		}
	}
	if err := k.Decode([]byte("{}"), k.Zero()); err != nil {
		all = append(all, fmt.Sprintf("what a version without these fields wrote is not read: %v", err))
	}
	return all, added, nil
}

// Lost says what of the JSON a is missing in b or has another value there.
func Lost(a, b []byte) ([]string, error) {
	was, err := parse(a)
	if err != nil {
		return nil, err
	}
	is, err := parse(b)
	if err != nil {
		return nil, err
	}
	return compare("", was, is), nil
}

func compare(at string, a, b any) []string {
	object, ok := a.(map[string]any)
	if list, is := a.([]any); is {
		others, is := b.([]any)
		if !is || len(others) != len(list) {
			return []string{fmt.Sprintf("%s was %v and is %v", at, a, b)}
		}
		var all []string
		for i := range list {
			all = append(all, compare(fmt.Sprintf("%s[%d]", at, i), list[i], others[i])...)
		}
		return all
	}
	if !ok {
		if !reflect.DeepEqual(a, b) {
			return []string{fmt.Sprintf("%s was %v and is %v", at, a, b)}
		}
		return nil
	}
	other, ok := b.(map[string]any)
	if !ok {
		return []string{fmt.Sprintf("%s was an object and is %v", at, b)}
	}
	var all []string
	for name, v := range object {
		w, ok := other[name]
		if !ok {
			all = append(all, fmt.Sprintf("%s.%s is not there", at, name))
			continue
		}
		all = append(all, compare(at+"."+name, v, w)...)
	}
	slices.Sort(all)
	return all
}

func parse(b []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("%w in %s", err, b)
	}
	return v, nil
}

// later adds to every object of b a field that nobody knows.
func later(b []byte) ([]byte, error) {
	var add func(v any)
	add = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, w := range v {
				add(w)
			}
			if _, free := v[anyKey]; !free { // the keys of a map are data
				v["of_a_later_version"] = map[string]any{"a": []any{1, "b"}}
			}
		case []any:
			for _, w := range v {
				add(w)
			}
		}
	}
	v, err := parse(b)
	if err != nil {
		return nil, err
	}
	add(v)
	return json.Marshal(v)
}

// anyKey is the key of every map, by which one is told from an object.
const anyKey = "any key"

// fill gives every field a value. A type inside itself stays empty.
func fill(v reflect.Value, inside []reflect.Type) {
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)))
		return
	case reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(`{"` + anyKey + `":1}`))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(7)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1.5)
	case reflect.String:
		v.SetString("text")
	case reflect.Pointer:
		if slices.Contains(inside, v.Type().Elem()) {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), inside)
	case reflect.Slice:
		if slices.Contains(inside, v.Type().Elem()) {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), inside)
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), inside)
		}
	case reflect.Map:
		key := reflect.New(v.Type().Key()).Elem()
		if key.Kind() == reflect.String {
			key.SetString(anyKey)
		} else {
			fill(key, inside)
		}
		of := reflect.New(v.Type().Elem()).Elem()
		fill(of, inside)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, of)
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf("text"))
		}
	case reflect.Struct:
		inside = append(slices.Clone(inside), v.Type())
		for i := range v.NumField() {
			f := v.Type().Field(i)
			// The fields of what is embedded are the type's own.
			if (f.IsExported() || f.Anonymous && f.Type.Kind() == reflect.Struct) && !strings.HasPrefix(f.Tag.Get("json"), "-") {
				fill(v.Field(i), inside)
			}
		}
	default: // has no form in JSON
	}
}
