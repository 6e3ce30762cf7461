package local_test

import "testing"

// Stories that random walks found, minimised. Each broke a promise, or the checker
// that watches over them.
func TestStoriesThatOnceBrokeAPromise(t *testing.T) {
	for name, acts := range map[string][]act{
		// The checker took the merge of a task that was reopened for one that nobody
		// accepted.
		// The model took an accept of what is accepted for one that is refused.
		"accepted twice":           {{"start", 0, "work"}, {"accept", 0, "work"}, {"accept", 0, "work"}},
		"reopened after its merge": {{"start", 0, "work"}, {"accept", 0, "work"}, {"reopen", 0, "work"}, {"resume", 0, "work"}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := alone(t, acts); err != nil {
				t.Error(err)
			}
		})
	}
}
