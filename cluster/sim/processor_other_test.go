//go:build !unix

package sim

import "time"

var began = time.Now()

// processorTime is the time that has passed, where there is nothing better.
func processorTime() time.Duration { return time.Since(began) }
