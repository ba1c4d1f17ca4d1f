package recent

import "strings"

// Names has one copy of each name, so that names that are equal are most often the same
// bytes, and these in the processor's cache. The zero value is ready. It is for one
// goroutine at a time.
type Names struct{ m map[string]string }

// Of returns the copy of name, which may be part of something large.
func (n *Names) Of(name string) string {
	if own, ok := n.m[name]; ok {
		return own
	}
	if n.m == nil {
		n.m = make(map[string]string)
	}
	own := strings.Clone(name)
	n.m[own] = own
	return own
}
