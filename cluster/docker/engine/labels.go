package engine

// Labels on everything that is created, for people ("docker ps --filter label=tidemark.run") and for [Down].
const (
	// RunLabel has the id of the run that a container or network belongs to.
	RunLabel = "tidemark.run"
	// NodeLabel has the name of the node that a container belongs to, such as broker-1.
	NodeLabel = "tidemark.node"
	// RoleLabel says which container of a node it is: [RoleSandbox] or [RoleNode].
	RoleLabel = "tidemark.role"
)

// The two containers of a node.
const (
	RoleSandbox = "sandbox"
	RoleNode    = "node"
)

// Labels are a container's.
func Labels(run, node, role string) map[string]string {
	return map[string]string{RunLabel: run, NodeLabel: node, RoleLabel: role}
}
