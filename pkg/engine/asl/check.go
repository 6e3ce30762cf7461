package asl

// check looks at the machine as a graph: every Next exists, every state can be
// reached, and from every state the execution can end.
func (l *loader) check(m *Machine) {
	if m.States[m.StartAt] == nil {
		l.bad("StartAt", "there is no state %q", m.StartAt)
	}
	into := map[string][]string{}
	for _, name := range m.Order {
		for _, to := range exits(m.States[name]) {
			if m.States[to] == nil {
				l.bad("States."+name, "leads to %q, which does not exist", to)
				continue
			}
			into[to] = append(into[to], name)
		}
	}
	if len(l.problems) > 0 {
		return
	}
	reached := walk([]string{m.StartAt}, func(s string) []string { return exits(m.States[s]) })
	var ends []string
	for _, name := range m.Order {
		if m.States[name].Terminal() {
			ends = append(ends, name)
		}
	}
	ending := walk(ends, func(s string) []string { return into[s] })
	for _, name := range m.Order {
		if !reached[name] {
			l.bad("States."+name, "cannot be reached from %s", m.StartAt)
		}
		if !ending[name] {
			l.bad("States."+name, "has no way to an end")
		}
	}
}

func exits(s *State) []string {
	var out []string
	if s.Next != "" {
		out = append(out, s.Next)
	}
	if s.Default != "" {
		out = append(out, s.Default)
	}
	for _, r := range s.Rules {
		out = append(out, r.Next)
	}
	for _, c := range s.Catch {
		out = append(out, c.Next)
	}
	return out
}

func walk(from []string, next func(string) []string) map[string]bool {
	seen := map[string]bool{}
	for len(from) > 0 {
		s := from[len(from)-1]
		from = from[:len(from)-1]
		if seen[s] {
			continue
		}
		seen[s] = true
		from = append(from, next(s)...)
	}
	return seen
}
