package bootstrap

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Main runs the launcher in this process. source is the path of the caller's
// main.go as the compiler recorded it.
func Main(source string) int {
	exe, err := os.Executable()
	if err != nil {
		exe = ""
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = ""
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	l := Launcher{
		Args:       os.Args[1:],
		Environ:    os.Environ(),
		Stderr:     os.Stderr,
		Terminal:   isTerminal(os.Stderr),
		Executable: exe,
		Source:     source,
		CacheDir:   cache,
		TempDir:    os.TempDir(),
		GoRoots:    []string{"/usr/local/go", `C:\Program Files\Go`},
		Now:        time.Now,
		Patience:   time.Second,
		Quiet:      5 * time.Second,
		Become: func(path string, argv, environ []string) (int, error) {
			stop()
			return become(path, argv, environ)
		},
	}
	code := l.Run(ctx)
	stop()
	return code
}

// isTerminal is close enough without a system call of its own: the null device
// is taken for a terminal too, and does not mind.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}
