// Package arch holds the tests of the rules that the compiler cannot check: who
// may import whom, what is documented, where the wall clock and the environment
// are read. The tables to edit are in table_test.go; an edit there is a decision
// that a reviewer sees.
package arch
