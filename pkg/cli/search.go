package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazyplane/lazyplane/pkg/op"
)

func (e *Env) searchCommand() *cobra.Command {
	limit := 0
	c := &cobra.Command{
		Use:     "search QUERY",
		Short:   "Search tasks, turns, journals and comments",
		Example: "  lazy search timeout\n  lazy search in:journal \"retry budget\"",
		Args:    between(1, -1, "the query"),
		RunE: func(c *cobra.Command, words []string) error {
			if limit < 0 {
				return usage(c, "--limit expects 1 or more, got %d", limit)
			}
			raw, err := e.call(c.Context(), "search", args{"query": strings.Join(words, " ")}.with("limit", limit))
			if err != nil {
				return err
			}
			return show(e, raw, func(out op.Found) error {
				if len(out.Hits) == 0 {
					return e.printf("Nothing matches.\n")
				}
				for _, h := range out.Hits {
					if err := e.printf("%s  %s  %s: %s\n", line(h.TaskID.Short()), line(h.Code), line(h.Section), line(h.Excerpt)); err != nil {
						return err
					}
				}
				if out.AsOf != "" {
					e.note("search may lag behind, as of %s", line(out.AsOf))
				}
				return nil
			})
		},
	}
	c.Flags().IntVar(&limit, "limit", 0, "at most this many hits")
	e.jsonFlag(c)
	return c
}
