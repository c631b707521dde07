// Package sim is a cluster in one process: the same cores as in broker processes, the same commands, and disks that lose
// power exactly, without a socket, a file or a clock.
//
// [Stage] moves step by step, for schedules. It is the only harness package that imports the cores themselves.
package sim
