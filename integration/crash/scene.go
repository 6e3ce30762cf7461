package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// sceneSteps is how many of the last durable steps a scene tells.
const sceneSteps = 30

// Scene tells what a broken world looks like, for whoever has only the words of
// the test: the last durable steps, the workspaces, and who still runs.
func (w *World) Scene() string {
	var b strings.Builder
	reached, err := w.Reached()
	if err != nil {
		fmt.Fprintf(&b, "points: %v\n", err)
	}
	fmt.Fprintf(&b, "%d durable steps, %d lives of the plane; the last:\n", len(reached), w.lives.Load())
	for i := max(0, len(reached)-sceneSteps); i < len(reached); i++ {
		fmt.Fprintf(&b, "  %d %s\n", i+1, reached[i])
	}
	trees, _ := filepath.Glob(filepath.Join(w.Paths.Dir, "tasks", "*", "tree"))
	for _, dir := range trees {
		short := filepath.Base(filepath.Dir(dir))
		fmt.Fprintf(&b, "task %s:", short)
		files, _ := os.ReadDir(dir)
		for _, f := range files {
			fmt.Fprintf(&b, " %s", f.Name())
		}
		for _, i := range w.idents(short) {
			fmt.Fprintf(&b, "; supervisor %d alive %t", i.PID, i.Alive())
		}
		for _, i := range w.boxes(short) {
			fmt.Fprintf(&b, "; sandbox %d alive", i.PID)
		}
		b.WriteString("\n")
	}
	return b.String()
}
