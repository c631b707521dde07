package node

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"tidemark/node/control"
	"tidemark/node/replica"
	"tidemark/node/rules"
)

// Flags are the command lines of "tidemark node" and "tidemark controller": the words in which people and the harness say
// the same thing.
type Flags struct {
	ID         int32
	Listen     string
	Advertise  string
	Controller string
	Peers      []string
	Dir        string
	Control    string
	Journal    string
	Hold       bool
	Protocol   string
	Without    []string
	Rules      []string
	Defects    []string
	Brokers    []int32
	Topics     []string
	Settings   []string
	PowerCut   []string
	Damaged    []string
	Start      int32
	// WithParent ends the process when its standard input ends, as it does when whoever started it dies.
	WithParent bool
}

// AddBroker adds the flags of a broker.
func (f *Flags) AddBroker(fs *pflag.FlagSet) {
	fs.Int32Var(&f.ID, "id", 1, "broker id, 1 or more")
	fs.StringVar(&f.Advertise, "advertise", "", "host:port at which clients and brokers reach this broker (default: where it listens)")
	fs.StringVar(&f.Controller, "controller", "127.0.0.1:9090", "host:port of the controller")
	fs.StringArrayVar(&f.PowerCut, "power-cut", nil, "play a power failure first: what was not flushed is gone, but for the first K operations of a log and T bytes of the next (orders-0=K[+T], *=K[+T] for every log, or none)")
	fs.StringArrayVar(&f.Damaged, "damaged", nil, "what was done to the disk since the broker was stopped, for its journal: flip, chop, forget")
	fs.Int32Var(&f.Start, "start", 1, "how often this broker was started, this time included: numbers the requests of an incarnation under --hold")
	f.add(fs, "127.0.0.1:9092")
}

// AddController adds the flags of the controller.
func (f *Flags) AddController(fs *pflag.FlagSet) { f.add(fs, "127.0.0.1:9090") }

func (f *Flags) add(fs *pflag.FlagSet, listen string) {
	fs.StringVar(&f.Listen, "listen", listen, "host:port to listen on; port 0 takes a free one and says which")
	fs.StringArrayVar(&f.Peers, "peer", nil, "ID=host:port: where this node reaches that broker, if not where it advertises")
	fs.StringVar(&f.Dir, "dir", "", "folder for this node's data")
	fs.StringVar(&f.Control, "control", "", "host:port to listen on for commands and views")
	fs.StringVar(&f.Journal, "journal", "on", "on: with --control, write what the node can be run again from (tidemark replay) to node.journal in its folder; off: do not")
	fs.BoolVar(&f.Hold, "hold", false, "move only by commands: every message waits until it is delivered, no time-out runs")
	fs.StringVar(&f.Protocol, "protocol", string(rules.KIP320), "replication protocol: hw, kip101, kip279, kip320, kip966")
	fs.StringArrayVar(&f.Without, "without", nil, "take a rule away, by its name")
	fs.StringArrayVar(&f.Rules, "rule", nil, "set a rule: name=on|off, truncation=hw|kip101|kip279|on-fetch, registration=zk|kraft")
	fs.StringArrayVar(&f.Defects, "defect", nil, "seed a defect of the bug zoo, by its ID (tidemark rules --defects); only with --control")
	fs.Int32SliceVar(&f.Brokers, "brokers", []int32{1}, "ids of all brokers of the cluster")
	fs.StringArrayVar(&f.Topics, "topic", nil, "NAME:PARTITIONS:REPLICAS, or NAME=1,3,2/2,1,3 with the replicas of each partition")
	fs.StringArrayVar(&f.Settings, "config", nil, "a setting by Kafka's name, for example min.insync.replicas=2")
	fs.BoolVar(&f.WithParent, "with-parent", false, "end when standard input ends")
}

// Broker is the configuration that the flags say, or what is wrong with them.
func (f *Flags) Broker(out io.Writer, log *slog.Logger) (BrokerConfig, error) {
	c := BrokerConfig{ID: control.NodeID(f.ID), Listen: f.Listen, Advertise: f.Advertise, Controller: f.Controller, Dir: f.Dir,
		Control: f.Control, NoJournal: f.Journal == "off", Hold: f.Hold, Start: f.Start, Out: out, Log: log}
	if f.ID < 1 {
		return c, fmt.Errorf("--id %d: want 1 or more", f.ID)
	}
	brokers, err := f.common(&c.Peers, &c.Rules, &c.Topics, &c.Settings)
	if err != nil {
		return c, err
	}
	if !slices.Contains(brokers, c.ID) {
		return c, fmt.Errorf("--id %d: not one of --brokers %v", f.ID, f.Brokers)
	}
	if err := wantAddress("--controller", f.Controller); err != nil {
		return c, err
	}
	if f.Advertise != "" {
		if err := wantAddress("--advertise", f.Advertise); err != nil {
			return c, err
		}
	}
	if f.Start < 1 {
		return c, fmt.Errorf("--start %d: want 1 or more", f.Start)
	}
	for _, word := range f.Damaged {
		kind := DamageKind(word)
		if kind != DamageFlip && kind != DamageChop && kind != DamageForget {
			return c, fmt.Errorf("--damaged %q: want flip, chop or forget", word)
		}
		c.Damaged = append(c.Damaged, kind)
	}
	if f.PowerCut != nil {
		c.PowerCut = map[string]replica.LogCut{}
	}
	for _, word := range f.PowerCut {
		if word == "none" {
			continue
		}
		name, cut, ok := strings.Cut(word, "=")
		keep, torn, isTorn := strings.Cut(cut, "+")
		var l replica.LogCut
		var err1, err2 error
		l.Keep, err1 = strconv.Atoi(keep)
		if isTorn {
			l.Torn, err2 = strconv.Atoi(torn)
		}
		_, err := replica.ParsePartition(name)
		if name == EveryLog {
			err = nil
		}
		if !ok || err != nil || err1 != nil || err2 != nil || l.Keep < 0 || l.Torn < 0 {
			return c, fmt.Errorf("--power-cut %q: want PARTITION=KEEP[+TORN], for example orders-0=2, *=0+17 for every log, or none", word)
		}
		c.PowerCut[name] = l
	}
	return c, nil
}

// ControllerConfig is the configuration that the flags say, or what is wrong with them.
func (f *Flags) ControllerConfig(out io.Writer, log *slog.Logger) (ControllerConfig, error) {
	c := ControllerConfig{Listen: f.Listen, Dir: f.Dir, Control: f.Control, NoJournal: f.Journal == "off", Hold: f.Hold, Out: out, Log: log}
	var err error
	c.Brokers, err = f.common(&c.Peers, &c.Rules, &c.Topics, &c.Settings)
	return c, err
}

// common reads what brokers and the controller have in common and returns the brokers.
func (f *Flags) common(peers *map[control.NodeID]string, set *rules.Set, topics *[]Topic, s *Settings) ([]control.NodeID, error) {
	if f.Dir == "" {
		return nil, fmt.Errorf("--dir is missing: name a folder for this node's data")
	}
	if err := wantAddress("--listen", f.Listen); err != nil {
		return nil, err
	}
	if f.Control != "" {
		if err := wantAddress("--control", f.Control); err != nil {
			return nil, err
		}
	}
	if f.Journal != "on" && f.Journal != "off" {
		return nil, fmt.Errorf("--journal %q: want on or off", f.Journal)
	}
	var brokers []control.NodeID
	for _, b := range f.Brokers {
		if b < 1 || slices.Contains(brokers, control.NodeID(b)) {
			return nil, fmt.Errorf("--brokers %v: want different ids of 1 or more", f.Brokers)
		}
		brokers = append(brokers, control.NodeID(b))
	}
	*peers = map[control.NodeID]string{}
	for _, word := range f.Peers {
		id, address, ok := strings.Cut(word, "=")
		n, err := strconv.ParseInt(id, 10, 32)
		if _, _, err2 := splitHostPort(address); !ok || err != nil || err2 != nil {
			return nil, fmt.Errorf("--peer %q: want ID=host:port", word)
		}
		if !slices.Contains(brokers, control.NodeID(n)) {
			return nil, fmt.Errorf("--peer %q: broker %d is not one of --brokers %v", word, n, f.Brokers)
		}
		if (*peers)[control.NodeID(n)] != "" {
			return nil, fmt.Errorf("--peer %q: broker %d is given twice", word, n)
		}
		(*peers)[control.NodeID(n)] = address
	}
	protocol, err := rules.ParseProtocol(f.Protocol)
	if err != nil {
		return nil, err
	}
	settings := make([]string, 0, len(f.Defects)+len(f.Rules))
	for _, id := range f.Defects {
		settings = append(settings, rules.Defect{ID: id}.Setting())
	}
	if *set, err = rules.Parse(protocol, f.Without, append(settings, f.Rules...)); err != nil {
		return nil, err
	}
	if seeded := seededIDs(f.Defects, *set); len(seeded) > 0 && f.Control == "" {
		return nil, fmt.Errorf("--defect %s without --control: a broken node is for a harness that watches it", strings.Join(seeded, ", "))
	}
	for _, word := range f.Topics {
		t, err := ParseTopic(word, brokers)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(*topics, func(o Topic) bool { return o.Name == t.Name }) {
			return nil, fmt.Errorf("--topic %q: the topic %s is given twice", word, t.Name)
		}
		for _, replicas := range t.Partitions {
			for _, id := range replicas {
				if !slices.Contains(brokers, id) {
					return nil, fmt.Errorf("--topic %q: replica %d is not one of --brokers %v", word, id, f.Brokers)
				}
			}
		}
		*topics = append(*topics, t)
	}
	*s = Defaults()
	for _, word := range f.Settings {
		if err := s.Set(word); err != nil {
			return nil, err
		}
	}
	return brokers, nil
}

// seededIDs are the defects that were asked for by a flag, and those in the set, each once.
func seededIDs(asked []string, set rules.Set) []string {
	var seeded []string
	for _, d := range rules.Defects() {
		named := slices.ContainsFunc(asked, func(id string) bool { return strings.EqualFold(id, d.ID) })
		if named || slices.ContainsFunc(set.Defects(), func(o rules.Defect) bool { return o.ID == d.ID }) {
			seeded = append(seeded, d.ID)
		}
	}
	return seeded
}

func wantAddress(flag, value string) error {
	if _, _, err := splitHostPort(value); err != nil {
		return fmt.Errorf("%s %q: want host:port (%w)", flag, value, err)
	}
	return nil
}

// Args is the command line of a broker with that configuration, without the word for the command.
func (c BrokerConfig) Args(brokers []control.NodeID) []string {
	args := []string{"--id", c.ID.String(), "--controller", c.Controller, "--start", strconv.Itoa(int(max(c.Start, 1)))}
	if c.Advertise != "" {
		args = append(args, "--advertise", c.Advertise)
	}
	if c.PowerCut != nil {
		args = append(args, "--power-cut", "none")
	}
	for _, name := range slices.Sorted(maps.Keys(c.PowerCut)) {
		cut := c.PowerCut[name]
		args = append(args, "--power-cut", fmt.Sprintf("%s=%d+%d", name, cut.Keep, cut.Torn))
	}
	for _, kind := range c.Damaged {
		args = append(args, "--damaged", string(kind))
	}
	return append(args, commonArgs(c.Listen, c.Control, c.Dir, c.Hold, c.NoJournal, c.Peers, c.Rules, c.Topics, c.Settings, brokers)...)
}

// Args is the command line of a controller with that configuration, without the word for the command.
func (c ControllerConfig) Args() []string {
	return commonArgs(c.Listen, c.Control, c.Dir, c.Hold, c.NoJournal, c.Peers, c.Rules, c.Topics, c.Settings, c.Brokers)
}

func commonArgs(listen, commands, dir string, hold, noJournal bool, peers map[control.NodeID]string, set rules.Set, topics []Topic, s Settings, brokers []control.NodeID) []string {
	args := []string{"--listen", listen, "--dir", dir, "--with-parent"}
	if commands != "" {
		args = append(args, "--control", commands)
	}
	if hold {
		args = append(args, "--hold")
	}
	if noJournal {
		args = append(args, "--journal", "off")
	}
	for _, n := range slices.Sorted(maps.Keys(peers)) {
		args = append(args, "--peer", n.String()+"="+peers[n])
	}
	for _, word := range set.Settings() {
		args = append(args, "--rule", word)
	}
	ids := make([]string, len(brokers))
	for i, b := range brokers {
		ids[i] = b.String()
	}
	args = append(args, "--brokers", strings.Join(ids, ","))
	for _, t := range topics {
		args = append(args, "--topic", t.String())
	}
	for _, word := range s.Words() {
		args = append(args, "--config", word)
	}
	return args
}
