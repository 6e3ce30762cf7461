package store_test

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lazyplane/lazyplane/pkg/store"
)

func TestAPackedDocumentComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "doc")
		doc = bytes.Repeat(doc, rapid.IntRange(1, 100).Draw(t, "times"))
		packed := store.Pack(doc)
		if len(packed) > len(doc)+1 {
			t.Fatalf("%d bytes became %d", len(doc), len(packed))
		}
		if back, err := store.Unpack(packed); err != nil || !bytes.Equal(back, doc) {
			t.Fatalf("%q came back as %q, %v", doc, back, err)
		}
	})
}

func TestABrokenPackIsAFault(t *testing.T) {
	packed := store.Pack([]byte(`{"goal":"` + strings.Repeat("long ", 200) + `"}`))
	if len(packed) > 100 {
		t.Errorf("it weighs %d bytes", len(packed))
	}
	if doc, err := store.Unpack(packed[:len(packed)/2]); err == nil {
		t.Errorf("half of it is %q", doc)
	}
}
