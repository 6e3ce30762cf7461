// Package blobtest is the contract of blob.Store, which every adapter passes.
package blobtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/blob"
)

// Store is what the contract needs of an adapter.
type Store interface {
	blob.Store
	blob.Purger
}

// Run holds an adapter to the contract. fresh returns a store that is empty.
func Run(t *testing.T, fresh func(t *testing.T) Store) {
	t.Run("WhatWasPutIsGot", func(t *testing.T) {
		s := fresh(t)
		for i, data := range [][]byte{{}, []byte("x"), []byte("\r\n\x00\xff"), bytes.Repeat([]byte("0123456789"), 700_000)} {
			key := fmt.Sprintf("acme/tasks/t/ünï code+%%41 &?=#/%d", i)
			if err := s.Put(t.Context(), key, data); err != nil {
				t.Fatal(err)
			}
			got, err := s.Get(t.Context(), key)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes came back as %d (%v)", len(data), len(got), err)
			}
		}
	})
	t.Run("AKeyNeverPutIsNotFound", func(t *testing.T) {
		s := fresh(t)
		put(t, s, "acme/a/b", "x")
		for _, key := range []string{"acme/none", "acme/a/b2", "acme/a/bb", "other/a/b"} {
			if _, err := s.Get(t.Context(), key); !errors.Is(err, blob.ErrNotFound) {
				t.Errorf("%s: %v, want %v", key, err, blob.ErrNotFound)
			}
		}
	})
	t.Run("TheSameBytesAgainAreASuccessAndOthersAreNot", func(t *testing.T) {
		s := fresh(t)
		put(t, s, "acme/a", "first")
		put(t, s, "acme/a", "first")
		for _, other := range []string{"second", "", "firs", "first "} {
			if err := s.Put(t.Context(), "acme/a", []byte(other)); !errors.Is(err, blob.ErrExists) {
				t.Errorf("%q over %q: %v, want %v", other, "first", err, blob.ErrExists)
			}
		}
		if got, err := s.Get(t.Context(), "acme/a"); err != nil || string(got) != "first" {
			t.Errorf("the key holds %q (%v)", got, err)
		}
	})
	t.Run("OneOfManyWritersWins", func(t *testing.T) {
		s := fresh(t)
		const writers = 16
		errs := make([]error, writers)
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() { errs[i] = s.Put(t.Context(), "acme/race", []byte(strings.Repeat(fmt.Sprint(i, " "), 1000))) })
		}
		all.Wait()
		won := -1
		for i, err := range errs {
			switch {
			case err == nil && won >= 0:
				t.Errorf("writers %d and %d both won", won, i)
			case err == nil:
				won = i
			case !errors.Is(err, blob.ErrExists):
				t.Errorf("writer %d: %v", i, err)
			}
		}
		got, err := s.Get(t.Context(), "acme/race")
		if err != nil || won < 0 || string(got) != strings.Repeat(fmt.Sprint(won, " "), 1000) {
			t.Errorf("writer %d won and the key holds %.20q (%v)", won, got, err)
		}
	})
	t.Run("WhatIsNoKeyIsRefusedByEveryVerb", func(t *testing.T) {
		s := fresh(t)
		for _, key := range []string{"", "/a", "a/", "a//b", "a/../b", "..", ".", "./a", "a\\b", "a\x00b", strings.Repeat("k", 901)} {
			_, err := s.Get(t.Context(), key)
			for verb, err := range map[string]error{
				"put": s.Put(t.Context(), key, []byte("x")), "get": err,
				"delete": s.Delete(t.Context(), key), "purge": s.Purge(t.Context(), key),
			} {
				if err == nil || errors.Is(err, blob.ErrNotFound) {
					t.Errorf("%s of %q: %v", verb, key, err)
				}
			}
		}
	})
	t.Run("DeletingTwiceIsASuccess", func(t *testing.T) {
		s := fresh(t)
		put(t, s, "acme/a", "x")
		put(t, s, "acme/b", "y")
		for range 2 {
			if err := s.Delete(t.Context(), "acme/a"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Get(t.Context(), "acme/a"); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("the deleted key: %v", err)
		}
		if _, err := s.Get(t.Context(), "acme/b"); err != nil {
			t.Errorf("its neighbour: %v", err)
		}
	})
	t.Run("PurgingTakesWholeSegmentsAndNothingBeside", func(t *testing.T) {
		s := fresh(t)
		for _, key := range []string{"acme/t/1", "acme/t/2/3", "acme/t2/1", "acme/tt", "other/t/1"} {
			put(t, s, key, "x")
		}
		for range 2 {
			if err := s.Purge(t.Context(), "acme/t"); err != nil {
				t.Fatal(err)
			}
		}
		for key, want := range map[string]bool{"acme/t/1": false, "acme/t/2/3": false, "acme/t2/1": true, "acme/tt": true, "other/t/1": true} {
			if _, err := s.Get(t.Context(), key); (err == nil) != want {
				t.Errorf("%s: %v, want it there: %t", key, err, want)
			}
		}
	})
	t.Run("ACancelledCallStoresNothing", func(t *testing.T) {
		s := fresh(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Put(ctx, "acme/a", []byte("x")); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if _, err := s.Get(t.Context(), "acme/a"); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	})
}

func put(t *testing.T, s blob.Store, key, data string) {
	t.Helper()
	if err := s.Put(t.Context(), key, []byte(data)); err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
}
