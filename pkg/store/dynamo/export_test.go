package dynamo

import "context"

// Tries is the bound of a transaction's tries.
const Tries = tries

// WithoutPauses has tries follow each other at once.
func WithoutPauses() Option {
	return func(s *Store) { s.wait = func(ctx context.Context, _ int) error { return ctx.Err() } }
}
