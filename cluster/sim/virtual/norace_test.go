//go:build !race

package virtual

// raced: the race detector is on.
const raced = false
