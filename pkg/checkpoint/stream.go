package checkpoint

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// What is too large to be held in memory is sealed in pieces. Each opens in its
// own place only, and the last one says that it is that, so that an object which
// was cut, or whose pieces were moved, does not open.
const (
	streamMark = "lzs1"
	pieceSize  = 1 << 20
	pieceMore  = 12 + 16 // nonce and tag
)

func pieceName(name string, n uint64, last bool) []byte {
	b := append([]byte(name), 0)
	b = binary.BigEndian.AppendUint64(b, n)
	if last {
		return append(b, 1)
	}
	return append(b, 0)
}

// piece reads as much of in as buf takes, and tells whether nothing comes after it.
func piece(in *bufio.Reader, buf []byte) (got int, last bool, err error) {
	got, err = io.ReadFull(in, buf)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return got, true, nil
	}
	if err != nil {
		return got, false, err
	}
	if _, err = in.Peek(1); errors.Is(err, io.EOF) {
		return got, true, nil
	}
	return got, false, err
}

// SealStream encrypts what r holds for its name.
func (c Cipher) SealStream(name string, w io.Writer, r io.Reader) error {
	if _, err := io.WriteString(w, streamMark); err != nil {
		return err
	}
	in := bufio.NewReaderSize(r, pieceSize)
	buf := make([]byte, pieceSize)
	for n := uint64(0); ; n++ {
		got, last, err := piece(in, buf)
		if err != nil {
			return err
		}
		if _, err := w.Write(c.aead.Seal(nil, nil, buf[:got], pieceName(name, n, last))); err != nil {
			return err
		}
		if last {
			return nil
		}
	}
}

// OpenStream decrypts what SealStream made for the same name, and what Seal did;
// anything else is ErrDamaged. What was written before that is of no use.
func (c Cipher) OpenStream(name string, w io.Writer, r io.Reader) error {
	in := bufio.NewReaderSize(r, pieceSize+pieceMore)
	mark, err := in.Peek(len(streamMark))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if string(mark) != streamMark {
		whole, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		plain, err := c.Open(name, whole)
		if err != nil {
			return err
		}
		_, err = w.Write(plain)
		return err
	}
	_, _ = in.Discard(len(streamMark)) // it is in the buffer
	buf := make([]byte, pieceSize+pieceMore)
	for n := uint64(0); ; n++ {
		got, last, err := piece(in, buf)
		if err != nil {
			return err
		}
		plain, err := c.aead.Open(buf[:0:0], nil, buf[:got], pieceName(name, n, last))
		if err != nil {
			return fmt.Errorf("%w: %s does not decrypt", ErrDamaged, name)
		}
		if _, err := w.Write(plain); err != nil {
			return err
		}
		if last {
			return nil
		}
	}
}
