package asl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// node is a JSON value that remembers the order of its members and where it
// stands, which encoding/json forgets.
type node struct {
	path    string
	value   any // string, json.Number, bool, nil; for containers see below
	object  bool
	array   bool
	members []member
	items   []*node
}

type member struct {
	name string
	node *node
}

func (n *node) get(name string) *node {
	for _, m := range n.members {
		if m.name == name {
			return m.node
		}
	}
	return nil
}

// plain returns the value as encoding/json would decode it with UseNumber.
func (n *node) plain() any {
	switch {
	case n.object:
		out := make(map[string]any, len(n.members))
		for _, m := range n.members {
			out[m.name] = m.node.plain()
		}
		return out
	case n.array:
		out := make([]any, len(n.items))
		for i, it := range n.items {
			out[i] = it.plain()
		}
		return out
	default:
		return n.value
	}
}

// maxDepth bounds the nesting of a definition.
const maxDepth = 64

func parse(text []byte) (*node, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	n, err := readNode(d, "", 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is text after the definition")
	}
	return n, nil
}

func readNode(d *json.Decoder, path string, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%s: nested more than %d deep", path, maxDepth)
	}
	t, err := d.Token()
	if err != nil {
		return nil, fmt.Errorf("read JSON at %q: %w", path, err)
	}
	n := &node{path: path}
	switch t {
	case json.Delim('{'):
		n.object = true
		return n, readObject(d, n, depth)
	case json.Delim('['):
		n.array = true
		for i := 0; d.More(); i++ {
			it, err := readNode(d, fmt.Sprintf("%s[%d]", path, i), depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, it)
		}
		_, err := d.Token()
		return n, err
	}
	n.value = t
	return n, nil
}

func readObject(d *json.Decoder, n *node, depth int) error {
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return fmt.Errorf("read JSON at %q: %w", n.path, err)
		}
		name, _ := t.(string)
		path := name
		if n.path != "" {
			path = n.path + "." + name
		}
		if n.get(name) != nil {
			return fmt.Errorf("%s: appears twice", path)
		}
		child, err := readNode(d, path, depth+1)
		if err != nil {
			return err
		}
		n.members = append(n.members, member{name, child})
	}
	_, err := d.Token()
	return err
}
