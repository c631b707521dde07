//go:build race

package virtual

// raced: the race detector makes everything several times slower.
const raced = true
