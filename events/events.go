// Package events carries the shapes of domain events: for each a schema, which
// whoever listens may rely on, and a sample. pkg/event has the same as types.
package events

import (
	"embed"
	"fmt"
)

//go:embed *.json
var files embed.FS

// Names lists the events, each with the version of its shape.
func Names() []string { return []string{"task_moved.v1"} }

// Schema returns the JSON schema of an event's detail.
func Schema(name string) ([]byte, error) { return read(name + ".schema.json") }

// Sample returns a detail that the schema describes.
func Sample(name string) ([]byte, error) { return read(name + ".sample.json") }

func read(file string) ([]byte, error) {
	b, err := files.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the shape of an event: %w", err)
	}
	return b, nil
}
