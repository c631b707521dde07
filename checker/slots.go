package checker

import (
	"iter"
	"slices"
)

const (
	pageBits = 9
	pageSize = 1 << pageBits
)

// slots maps offsets to the value first claimed for them. Logs are dense, so pages of an array beat a map of offsets by a factor
// of several in memory and time; only pages that are used exist, so a single wild offset costs one page and not an array up to it.
type slots struct {
	pages map[int64]*page
	last  int64
	page  *page
	n     int64
}

// page holds value numbers plus one, so that zero is empty.
type page [pageSize]int32

func (s *slots) at(offset int64) *page {
	id := offset >> pageBits
	if s.page != nil && s.last == id {
		return s.page
	}
	if p := s.pages[id]; p != nil {
		s.last, s.page = id, p
		return p
	}
	return nil
}

// get returns the value at offset, or none.
func (s *slots) get(offset int64) int32 {
	p := s.at(offset)
	if p == nil {
		return none
	}
	return p[offset&(pageSize-1)] - 1
}

// set claims an empty offset.
func (s *slots) set(offset int64, value int32) {
	p := s.at(offset)
	if p == nil {
		if s.pages == nil {
			s.pages = map[int64]*page{}
		}
		p = new(page)
		s.pages[offset>>pageBits] = p
		s.last, s.page = offset>>pageBits, p
	}
	p[offset&(pageSize-1)] = value + 1
	s.n++
}

// below counts the offsets below end that are claimed.
func (s *slots) below(end int64) int64 {
	n := s.n
	for id, p := range s.pages {
		if (id+1)<<pageBits <= end {
			continue
		}
		for i, v := range p {
			if v != 0 && id<<pageBits+int64(i) >= end {
				n--
			}
		}
	}
	return n
}

// holes gives the offsets below end that nobody claimed, lowest first. It looks at every offset: ask below first whether there are
// few.
func (s *slots) holes(end int64) iter.Seq[int64] {
	return s.unfilled(end, func(int32) bool { return false })
}

// unfilled gives, beside the holes, the offsets whose value does not count.
func (s *slots) unfilled(end int64, but func(v int32) bool) iter.Seq[int64] {
	ids := make([]int64, 0, len(s.pages))
	for id := range s.pages {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return func(yield func(int64) bool) {
		next := int64(0)
		for _, id := range ids {
			for ; next < min(id<<pageBits, end); next++ {
				if !yield(next) {
					return
				}
			}
			for ; next < min((id+1)<<pageBits, end); next++ {
				if v := s.pages[id][next&(pageSize-1)]; (v == 0 || but(v-1)) && !yield(next) {
					return
				}
			}
		}
		for ; next < end; next++ {
			if !yield(next) {
				return
			}
		}
	}
}
