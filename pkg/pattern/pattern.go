// Package pattern holds regular expressions that are compiled when they are first
// used. The program starts three times before an agent runs, each time for a
// little of what it can do; compiling every expression at each start took as long
// as all the rest.
package pattern

import (
	"regexp"
	"sync"
)

// Pattern is a regular expression. The zero value is of no use.
type Pattern struct{ compiled func() *regexp.Regexp }

// New returns the pattern of an expression that is known to compile; one that does
// not panics where it is first used.
func New(expr string) *Pattern {
	return &Pattern{compiled: sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })}
}

// MatchString reports whether s holds a match.
func (p *Pattern) MatchString(s string) bool { return p.compiled().MatchString(s) }

// FindStringSubmatch returns the leftmost match and its groups, nil without one.
func (p *Pattern) FindStringSubmatch(s string) []string { return p.compiled().FindStringSubmatch(s) }

// FindAllString returns up to n matches, all when n is negative.
func (p *Pattern) FindAllString(s string, n int) []string { return p.compiled().FindAllString(s, n) }

// ReplaceAllStringFunc replaces each match by what repl returns for it.
func (p *Pattern) ReplaceAllStringFunc(s string, repl func(string) string) string {
	return p.compiled().ReplaceAllStringFunc(s, repl)
}
