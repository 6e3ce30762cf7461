package mcpserver

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lazyplane/lazyplane/pkg/identity"
	"github.com/lazyplane/lazyplane/pkg/op"
)

// view is what a list of tools depends on: the role, known from the token, and
// whether its turn only reads (CM-027, CM-028).
type view struct {
	kind     identity.Kind
	readOnly bool
}

// lists renders the tools of every view once.
func lists(ops *op.Catalogue) map[view][]*mcp.Tool {
	m := map[view][]*mcp.Tool{}
	for _, v := range []view{{identity.Builder, false}, {identity.Task, false}, {identity.Task, true}} {
		m[v] = []*mcp.Tool{}
		for _, o := range ops.Tools(v.kind) {
			if v.readOnly && o.Effect != op.Read {
				continue
			}
			m[v] = append(m[v], &mcp.Tool{
				Name: o.Tool, Description: o.Doc, InputSchema: o.Schema(v.kind),
				Annotations: &mcp.ToolAnnotations{ReadOnlyHint: o.Effect == op.Read},
			})
		}
	}
	return m
}

// list returns the tools a caller is shown. It is advertisement only: handlers
// refuse for themselves.
func (s *server) list(ctx context.Context, who identity.Caller) ([]*mcp.Tool, error) {
	v := view{kind: who.Kind}
	if who.Kind == identity.Task {
		readOnly, err := s.Turns.ReadOnlyTurn(ctx, who)
		if err != nil {
			return nil, err
		}
		v.readOnly = readOnly
	}
	return s.tools[v], nil
}
