package broker

import (
	"iter"
	"slices"
	"sort"
)

// sortedChunk is the most elements of a chunk: what an insertion moves at most.
const sortedChunk = 512

// sorted is a set of values in order. They lie in flat arrays of sortedChunk, so a
// million of them are some thousand objects to the garbage collector, and none of
// them has a pointer of its own. Adding and removing cost a binary search and the
// move of a part of one array; memory follows what is in it.
type sorted[T any] struct {
	compare func(a, b T) int
	chunks  [][]T // none is empty; each has room for sortedChunk
	n       int
}

// place is where v is, or would be.
func (s *sorted[T]) place(v T) (chunk, at int, found bool) {
	chunk = sort.Search(len(s.chunks), func(i int) bool {
		c := s.chunks[i]
		return s.compare(c[len(c)-1], v) >= 0
	})
	if chunk == len(s.chunks) {
		return chunk, 0, false
	}
	at, found = slices.BinarySearchFunc(s.chunks[chunk], v, s.compare)
	return chunk, at, found
}

// add puts v in, and reports whether it was not there.
func (s *sorted[T]) add(v T) bool {
	i, at, found := s.place(v)
	if found {
		return false
	}
	s.n++
	if i == len(s.chunks) { // behind all others: chunks that are filled in order are full
		if i == 0 || len(s.chunks[i-1]) == sortedChunk {
			s.chunks = append(s.chunks, append(make([]T, 0, sortedChunk), v))
			return true
		}
		s.chunks[i-1] = append(s.chunks[i-1], v)
		return true
	}
	if len(s.chunks[i]) == sortedChunk {
		const half = sortedChunk / 2
		upper := append(make([]T, 0, sortedChunk), s.chunks[i][half:]...)
		s.chunks[i] = s.chunks[i][:half]
		s.chunks = insert(s.chunks, i+1, upper)
		if at > half {
			i, at = i+1, at-half
		}
	}
	s.chunks[i] = insert(s.chunks[i], at, v)
	return true
}

// insert is slices.Insert of one element, in a fifth of its code.
func insert[E any](s []E, at int, v E) []E {
	s = append(s, v)
	copy(s[at+1:], s[at:])
	s[at] = v
	return s
}

// remove takes v out, and returns what was in its place.
func (s *sorted[T]) remove(v T) (was T, found bool) {
	i, at, found := s.place(v)
	if !found {
		return was, false
	}
	was = s.chunks[i][at]
	s.n--
	s.chunks[i] = slices.Delete(s.chunks[i], at, at+1)
	if len(s.chunks[i]) == 0 {
		s.chunks = slices.Delete(s.chunks, i, i+1)
		return was, true
	}
	s.merge(i - 1)
	s.merge(i)
	return was, true
}

// merge makes one of chunk i and the next, if that leaves room in it.
func (s *sorted[T]) merge(i int) {
	if i < 0 || i+1 >= len(s.chunks) || len(s.chunks[i])+len(s.chunks[i+1]) > sortedChunk/2 {
		return
	}
	s.chunks[i] = append(s.chunks[i], s.chunks[i+1]...)
	s.chunks = slices.Delete(s.chunks, i+1, i+2)
}

// from goes through the values from v on. They must not change meanwhile.
func (s *sorted[T]) from(v T) iter.Seq[T] {
	return func(yield func(T) bool) {
		i, at, _ := s.place(v)
		for ; i < len(s.chunks); i, at = i+1, 0 {
			for _, v := range s.chunks[i][at:] {
				if !yield(v) {
					return
				}
			}
		}
	}
}

// first is the smallest value.
func (s *sorted[T]) first() (v T, ok bool) {
	if len(s.chunks) == 0 {
		return v, false
	}
	return s.chunks[0][0], true
}
