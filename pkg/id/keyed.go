package id

import (
	"crypto/sha256"

	"github.com/google/uuid"
)

// Keyed returns the id v, a UUIDv7, with its random part drawn from an idempotency
// key and from whose it is: whoever knows the key finds what the id names, and no
// row is needed that says which id went with which key. Anything that is no UUID
// comes back as it is.
func Keyed(v, caller, key string) string {
	u, err := uuid.Parse(v)
	if err != nil {
		return v
	}
	sum := keyed("operation", caller, key)
	copy(u[6:], sum[:])
	u[6] = u[6]&0x0f | 0x70
	u[8] = u[8]&0x3f | 0x80
	return u.String()
}

// Tail is the part of a UUIDv7 that is not its time.
func Tail(v string) string {
	const shape, time = 36, 14
	if len(v) != shape {
		return v
	}
	return v[time:]
}

// KeyedTask returns the task id that belongs to an idempotency key.
func KeyedTask(caller, key string) Task {
	var u uuid.UUID
	sum := keyed("task", caller, key)
	copy(u[:], sum[:])
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return Task(u.String())
}

func keyed(what, caller, key string) [sha256.Size]byte {
	return sha256.Sum256([]byte(what + "\x00" + caller + "\x00" + key))
}
