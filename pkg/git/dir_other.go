//go:build !unix

package git

// notDir reports whether a path has a file where it needs a directory; systems
// without that error answer "not found" instead.
func notDir(error) bool { return false }
