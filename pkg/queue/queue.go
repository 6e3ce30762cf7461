// Package queue is the port to a queue of messages.
package queue

import "context"

// MaxMessage is the most bytes of a message.
const MaxMessage = 256 << 10

// Queue takes messages. A message that was taken is delivered at least once.
type Queue interface {
	// Send returns once the message is durable. The attributes are for people and
	// filters; nothing depends on them.
	Send(ctx context.Context, body []byte, attributes map[string]string) error
}
