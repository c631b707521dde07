// Package docker runs the nodes of a cluster in containers, on a network of their own, with packet rules between them.
//
// Every node is a pair of containers:
//
//	+--------------- network namespace, 172.18.0.3, published on 127.0.0.1 ---------------+
//	|  sandbox: tidemark sandbox, NET_ADMIN        node: tidemark node ...                |
//	|  lives as long as the run                    killed, paused and started again       |
//	+--------------------------------------------------------------------------------------+
//
// The sandbox owns the address and the rules, so both survive the node's death, and the node's image needs no tools for
// either: see package sandbox. Both run the same image, which holds nothing but the tidemark executable: see package
// image.
//
// Containers and networks are made through testcontainers-go, and driven through the Docker API of the same engine. All
// of them carry the run's label, by which whatever a killed harness leaves can be removed: see package engine. What it
// leaves is idle, because the harness holds the standard input of every container, and they exit when it ends.
//
// An engine's own proxy listens on the published ports and accepts connections also while the node is dead or paused,
// so a connection to a published port proves nothing about the node. On Linux the container's address can be reached
// directly, which is faster as well.
package docker
