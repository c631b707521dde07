package history

// Version is the version of the format that this package writes, and the only one that it reads.
const Version = 1

// Header is the first line of a history: what the run promised and what it ran on. Everything in it is optional; what is
// missing has the default named with it.
type Header struct {
	// Version is filled by the reader; the writer always writes [Version].
	Version  int
	Contract Contract
	Topics   []Topic
	// Meta is free: run id, seed, version of the broker. It is written in the order of its keys.
	Meta map[string]string
}

// Contract is what the run's configuration promises. It decides which findings are a violation and which are allowed.
type Contract struct {
	// Acks of the producers: "all", "1" or "0"; "" is "all".
	Acks string
	// MinISR is min.insync.replicas; 0 is 1, Kafka's default.
	MinISR int
	// Unclean is unclean.leader.election.enable.
	Unclean bool
	// Protocol names the replication protocol, such as "hw", "kip101", "kip320". It is for people, and decides CrashBudget if that is
	// empty.
	Protocol string
	// CrashBudget says which power failures the protocol survives. "" is [BudgetMinISR] for protocol kip966 and [BudgetISR] otherwise.
	CrashBudget CrashBudget
	// Bar is the weakest level that passes: "linearizable", "monotonic end", "committed log" or "agreement"; "" is "committed log".
	Bar string
}

// CrashBudget says which crashes that lose unflushed data a protocol promises to survive.
type CrashBudget string

// The crash budgets.
const (
	// BudgetISR: none of a member of the ISR that leads or counts again before it has fetched anew what it lost. Kafka up to KIP-320.
	BudgetISR CrashBudget = "isr"
	// BudgetMinISR: up to min.insync.replicas - 1 (KIP-966).
	BudgetMinISR CrashBudget = "min-isr"
	// BudgetAll: any number, as of a log that is flushed before it is acknowledged.
	BudgetAll CrashBudget = "all"
)

// Topic is a topic as created.
type Topic struct {
	Name       string
	Partitions int
	Replicas   int
}
