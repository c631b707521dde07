package sim

// keySet is a set of keys: open addressing, because a map of them takes three times the memory.
type keySet struct {
	slots []Key
	size  int
}

func newKeySet() *keySet { return &keySet{slots: make([]Key, 1<<12)} }

// add says whether the key is new.
func (s *keySet) add(k Key) bool {
	if k == (Key{}) {
		k[0] = 1 // the zero key marks an empty slot
	}
	if s.size >= len(s.slots)/4*3 {
		old := s.slots
		s.slots = make([]Key, 2*len(old))
		for _, o := range old {
			if o != (Key{}) {
				s.slots[s.find(o)] = o
			}
		}
	}
	at := s.find(k)
	if s.slots[at] == k {
		return false
	}
	s.slots[at] = k
	s.size++
	return true
}

// find is the key's slot, or the empty one where it belongs.
func (s *keySet) find(k Key) uint64 {
	mask := uint64(len(s.slots) - 1)
	at := k[0] & mask
	for s.slots[at] != (Key{}) && s.slots[at] != k {
		at = (at + 1) & mask
	}
	return at
}
