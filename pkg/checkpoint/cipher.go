package checkpoint

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"
)

// KeySize is the length of a task's key.
const KeySize = 32

// Cipher encrypts the objects of one task. An object opens under its own name
// only, so one cannot be put in the place of another.
type Cipher struct{ aead cipher.AEAD }

// NewCipher returns the cipher of a task's key.
func NewCipher(key []byte) (Cipher, error) {
	if len(key) != KeySize {
		return Cipher{}, fmt.Errorf("checkpoint: a key has %d bytes, not %d", KeySize, len(key))
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return Cipher{}, fmt.Errorf("make cipher: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return Cipher{}, fmt.Errorf("make cipher: %w", err)
	}
	return Cipher{aead}, nil
}

// Seal encrypts an object for its name.
func (c Cipher) Seal(name string, plain []byte) []byte {
	return c.aead.Seal(nil, nil, plain, []byte(name))
}

// Open decrypts what Seal made for the same name; anything else is ErrDamaged.
func (c Cipher) Open(name string, sealed []byte) ([]byte, error) {
	plain, err := c.aead.Open(nil, nil, sealed, []byte(name))
	if err != nil {
		return nil, fmt.Errorf("%w: %s does not decrypt", ErrDamaged, name)
	}
	return plain, nil
}
