// Command lazy is what people run. It is a launcher of standard library code
// only, so that its first line appears while Go still compiles the rest: it
// becomes the full program, lazy-agent, after building it when it has to.
package main

import (
	"os"
	"runtime"

	"github.com/lazyplane/lazyplane/pkg/bootstrap"
)

func main() {
	_, source, _, _ := runtime.Caller(0)
	os.Exit(bootstrap.Main(source))
}
