package box

// below returns every process whose chain of parents leads to root.
func below(parent map[int]int, root int) []int {
	var all []int
	for p := range parent {
		for at, n := p, 0; n < 1000; n++ {
			up, ok := parent[at]
			if !ok {
				break
			}
			if up == root {
				all = append(all, p)
				break
			}
			at = up
		}
	}
	return all
}
