// Package node is the broker and controller processes: it assembles the pure cores with sockets, files and the clock.
//
// [RunBroker] and [RunController] are the whole of a process behind its command line. What they assemble:
//
//	inbox.Broker, controller.Controller   the cores, owned by one goroutine (the shell's loop)
//	storage.Files                         the broker's disk
//	kafka.Server, kafka.Conn              Kafka's protocol with clients, brokers and the controller
//	control.Server                        commands and views, for the harness
//	journal.Recorder                      what the cores can be run again from (node/replay), beside the data; with a control listener
//	standard output                       a line when ready, then the events, one a line ([Line])
//
// A node started with Hold has no timers: what arrives waits until a command delivers it.
package node
