package app

import (
	"maps"
	"slices"
	"strings"
)

func joined(paths []string) string {
	const most = 20
	if len(paths) > most {
		return strings.Join(paths[:most], ", ") + ", …"
	}
	return strings.Join(paths, ", ")
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
