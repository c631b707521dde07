//go:build !unix

package tidemark

import "time"

var processBegan = time.Now()

// processorTime is the time since the process began, where what it used of the processors is not known.
func processorTime() time.Duration { return time.Since(processBegan) }
