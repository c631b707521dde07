package kafka

import (
	"sync"

	"tidemark/node/replica"
)

// Watchers tells the long polls of consumers that something changed in a partition. A node calls [Watchers.Changed]; the
// rest of [Broker.Watch] is here. The zero value is ready, and it is safe for concurrent use.
type Watchers struct {
	mu sync.Mutex
	of map[replica.Partition]map[chan struct{}]struct{}
}

// Changed wakes everyone who watches the partition. It never blocks: who has not taken the last notice yet gets no
// second one.
func (w *Watchers) Changed(p replica.Partition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ch := range w.of[p] {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// Watch starts a watch over the partitions. stop must be called; calling it again does nothing.
func (w *Watchers) Watch(partitions []replica.Partition) (changed <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil {
		w.of = map[replica.Partition]map[chan struct{}]struct{}{}
	}
	for _, p := range partitions {
		if w.of[p] == nil {
			w.of[p] = map[chan struct{}]struct{}{}
		}
		w.of[p][ch] = struct{}{}
	}
	return ch, func() { w.stop(partitions, ch) }
}

func (w *Watchers) stop(partitions []replica.Partition, ch chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range partitions {
		delete(w.of[p], ch)
		if len(w.of[p]) == 0 {
			delete(w.of, p)
		}
	}
}
