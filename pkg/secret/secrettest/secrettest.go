// Package secrettest is the contract of secret.Source, which every adapter passes.
package secrettest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/fault"
	"github.com/lazyplane/lazyplane/pkg/secret"
)

// Fixture is one adapter, ready to be tried.
type Fixture struct {
	Source secret.Source
	// Make makes a secret without a value; Put puts a value into it.
	Make func(t *testing.T) (name string)
	Put  func(t *testing.T, name string, value []byte)
}

// Run holds an adapter to the contract.
func Run(t *testing.T, fresh func(t *testing.T) Fixture) {
	t.Run("WhatIsPutInIsRead", func(t *testing.T) {
		f := fresh(t)
		for _, want := range []string{"-----BEGIN KEY-----\nabc\n", "ünï \x00\xff", " x "} {
			name := f.Make(t)
			f.Put(t, name, []byte(want))
			got, err := f.Source.Read(t.Context(), name, secret.Current)
			if err != nil || string(got.Reveal()) != want {
				t.Errorf("%q was read as %q, %v", want, got.Reveal(), err)
			}
		}
	})
	t.Run("ReplacedItHasTheValueBefore", func(t *testing.T) {
		f := fresh(t)
		name := f.Make(t)
		for _, v := range []string{"first", "second", "third"} {
			f.Put(t, name, []byte(v))
		}
		for v, want := range map[secret.Version]string{secret.Current: "third", secret.Previous: "second"} {
			if got, err := f.Source.Read(t.Context(), name, v); err != nil || string(got.Reveal()) != want {
				t.Errorf("%s is %q, %v, want %q", v, got.Reveal(), err, want)
			}
		}
	})
	t.Run("WhatCannotBeReadSaysWhatToDo", func(t *testing.T) {
		f := fresh(t)
		empty, once := f.Make(t), f.Make(t)
		f.Put(t, once, []byte("canary-4711"))
		for _, c := range []struct {
			name string
			v    secret.Version
			next bool
		}{{empty, secret.Current, true}, {once, secret.Previous, false}, {once + "-none", secret.Current, true}} {
			got, err := f.Source.Read(t.Context(), c.name, c.v)
			said := fault.Of(err)
			if err == nil || len(got.Reveal()) != 0 || said.Kind != fault.Unavailable || said.Public == "" || len(said.Next) > 0 != c.next {
				t.Errorf("%s of %s: %q, %v, next %v", c.v, c.name, got.Reveal(), err, said)
			}
			if !errors.Is(err, secret.ErrNoVersion) {
				t.Errorf("%s of %s: %v, want %v", c.v, c.name, err, secret.ErrNoVersion)
			}
			if strings.Contains(fmt.Sprintf("%v %+v", err, said), "canary") {
				t.Errorf("the error has the value: %v", err)
			}
		}
	})
	t.Run("SecretsAreApart", func(t *testing.T) {
		f := fresh(t)
		one, other := f.Make(t), f.Make(t)
		f.Put(t, one, []byte("one"))
		f.Put(t, other, []byte("other"))
		for name, want := range map[string]string{one: "one", other: "other"} {
			if got, err := f.Source.Read(t.Context(), name, secret.Current); err != nil || !bytes.Equal(got.Reveal(), []byte(want)) {
				t.Errorf("%s is %q, %v", name, got.Reveal(), err)
			}
		}
	})
}
