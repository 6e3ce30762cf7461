package checkpoint_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"testing"

	"github.com/lazyplane/lazyplane/pkg/checkpoint"
)

func TestAStreamOpensWholeUnderItsOwnNameOnly(t *testing.T) {
	c, err := checkpoint.NewCipher(bytes.Repeat([]byte{7}, checkpoint.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	const piece = 1 << 20
	for _, size := range []int{0, 1, piece - 1, piece, piece + 1, 3 * piece} {
		plain := make([]byte, size)
		_, _ = rand.Read(plain)
		var sealed, open bytes.Buffer
		if err := c.SealStream("a", &sealed, bytes.NewReader(plain)); err != nil {
			t.Fatal(err)
		}
		if err := c.OpenStream("a", &open, bytes.NewReader(sealed.Bytes())); err != nil || !bytes.Equal(open.Bytes(), plain) {
			t.Fatalf("%d bytes come back as %d: %v", size, open.Len(), err)
		}
		whole := sealed.Bytes()
		swapped := bytes.Clone(whole)
		if size == 3*piece {
			const sealedPiece = piece + 28
			copy(swapped[4:], whole[4+sealedPiece:4+2*sealedPiece])
			copy(swapped[4+sealedPiece:], whole[4:4+sealedPiece])
		} else {
			swapped[len(swapped)-1] ^= 1
		}
		for what, bad := range map[string][]byte{
			"cut by a byte": whole[:len(whole)-1], "cut by a piece": whole[:max(4, len(whole)-size%piece-28)],
			"changed": swapped, "more": append(bytes.Clone(whole), 0),
		} {
			if size == 3*piece && what == "cut by a piece" {
				bad = whole[:4+2*(piece+28)]
			}
			if err := c.OpenStream("a", new(bytes.Buffer), bytes.NewReader(bad)); !errors.Is(err, checkpoint.ErrDamaged) {
				t.Errorf("%d bytes, %s: %v", size, what, err)
			}
		}
		if err := c.OpenStream("b", new(bytes.Buffer), bytes.NewReader(whole)); !errors.Is(err, checkpoint.ErrDamaged) {
			t.Errorf("it opens under another name: %v", err)
		}
	}
	var open bytes.Buffer
	if err := c.OpenStream("a", &open, bytes.NewReader(c.Seal("a", []byte("old")))); err != nil || open.String() != "old" {
		t.Errorf("what was sealed in one piece comes back as %q: %v", open.String(), err)
	}
}
