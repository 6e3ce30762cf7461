// Package sealtest is the contract of seal.Sealer, which every adapter passes.
package sealtest

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/seal"
)

// Sealer is what the contract needs of an adapter.
type Sealer interface {
	seal.Sealer
	seal.Shredder
}

// Run holds an adapter to the contract. Each call of again returns a sealer over
// the same keys, as another process would have it.
func Run(t *testing.T, fresh func(t *testing.T) (again func() Sealer)) {
	t.Run("WhatWasSealedOpensInAnotherProcess", func(t *testing.T) {
		again := fresh(t)
		for _, plain := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte("secret "), 40_000)} {
			sealed := must(again().Seal(t.Context(), "acme", "credential", plain))(t)
			got := must(again().Open(t.Context(), "acme", "credential", sealed))(t)
			if !bytes.Equal(got, plain) {
				t.Fatalf("%d bytes came back as %d", len(plain), len(got))
			}
			if len(plain) > 8 && bytes.Contains(sealed, plain) || len(sealed) != len(plain)+seal.Overhead {
				t.Fatalf("%d bytes were sealed as %d, or can be read", len(plain), len(sealed))
			}
		}
	})
	t.Run("NothingOpensForAnotherTenantOrPurpose", func(t *testing.T) {
		s := fresh(t)()
		sealed := must(s.Seal(t.Context(), "acme", "credential", []byte("secret")))(t)
		must(s.Seal(t.Context(), "other", "credential", []byte("theirs")))(t)
		for _, c := range [][2]string{{"other", "credential"}, {"acme", "checkpoint"}, {"acm", "ecredential"}, {"nobody", "credential"}} {
			if got, err := s.Open(t.Context(), c[0], c[1], sealed); err == nil {
				t.Errorf("opened for %v: %q", c, got)
			}
		}
		if _, err := s.Open(t.Context(), "acme", "checkpoint", sealed); !errors.Is(err, seal.ErrOpen) {
			t.Errorf("another purpose: %v, want %v", err, seal.ErrOpen)
		}
	})
	t.Run("EveryChangedByteIsNoticed", func(t *testing.T) {
		s := fresh(t)()
		sealed := must(s.Seal(t.Context(), "acme", "credential", []byte("secret")))(t)
		for i := range sealed {
			bad := bytes.Clone(sealed)
			bad[i] ^= 1
			if _, err := s.Open(t.Context(), "acme", "credential", bad); err == nil {
				t.Errorf("byte %d may be changed", i)
			}
			if _, err := s.Open(t.Context(), "acme", "credential", sealed[:i]); err == nil {
				t.Errorf("the first %d bytes open", i)
			}
		}
	})
	t.Run("TheSameBytesAreSealedDifferentlyEachTime", func(t *testing.T) {
		s := fresh(t)()
		a := must(s.Seal(t.Context(), "acme", "credential", []byte("secret")))(t)
		b := must(s.Seal(t.Context(), "acme", "credential", []byte("secret")))(t)
		if bytes.Equal(a, b) {
			t.Error("equal secrets can be recognised")
		}
	})
	t.Run("ShreddingMakesATenantsBytesUnreadableEverywhereAndNoOthers", func(t *testing.T) {
		again := fresh(t)
		warm := again()
		mine := must(warm.Seal(t.Context(), "acme", "credential", []byte("secret")))(t)
		theirs := must(warm.Seal(t.Context(), "other", "credential", []byte("theirs")))(t)
		must(warm.Open(t.Context(), "acme", "credential", mine))(t)
		for range 2 {
			if err := again().Shred(t.Context(), "acme"); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range []Sealer{warm, again()} {
			if _, err := s.Open(t.Context(), "acme", "credential", mine); !errors.Is(err, seal.ErrShredded) {
				t.Errorf("after shredding: %v, want %v", err, seal.ErrShredded)
			}
			must(s.Open(t.Context(), "other", "credential", theirs))(t)
		}
		later := must(warm.Seal(t.Context(), "acme", "credential", []byte("new")))(t)
		must(again().Open(t.Context(), "acme", "credential", later))(t)
		if _, err := warm.Open(t.Context(), "acme", "credential", mine); !errors.Is(err, seal.ErrShredded) {
			t.Errorf("with a key made since: %v, want %v", err, seal.ErrShredded)
		}
	})
	t.Run("FirstWritersAgreeOnOneKey", func(t *testing.T) {
		again := fresh(t)
		sealed := make([][]byte, 8)
		var all sync.WaitGroup
		for i := range sealed {
			all.Go(func() {
				var err error
				if sealed[i], err = again().Seal(t.Context(), "acme", "credential", []byte{byte(i)}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		s := again()
		for i, b := range sealed {
			if got := must(s.Open(t.Context(), "acme", "credential", b))(t); !bytes.Equal(got, []byte{byte(i)}) {
				t.Errorf("writer %d reads %v", i, got)
			}
		}
	})
}

func must(b []byte, err error) func(*testing.T) []byte {
	return func(t *testing.T) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}
