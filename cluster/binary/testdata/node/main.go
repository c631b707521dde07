// Command node stands in for tidemark in the tests of package binary. It imports net, and so needs a dynamic loader
// whenever cgo is on.
package main

import (
	"fmt"
	"net"
)

func main() {
	fmt.Println("a node at", net.IPv4(127, 0, 0, 1))
}
