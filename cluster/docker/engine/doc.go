// Package engine finds the container engine and keeps it tidy.
//
// [Connect] leads to the engine that testcontainers-go uses: the one that its properties file or DOCKER_HOST names, else
// the one behind the usual sockets, a rootless engine's included. Nothing is ever pulled from a registry. That includes
// the image of testcontainers' own reaper, so the reaper is off unless TESTCONTAINERS_RYUK_DISABLED says otherwise. In
// its place every container and network carries the label [RunLabel], and [Down] removes by label what a killed harness
// has left.
package engine
