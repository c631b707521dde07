// Package sim is a cluster in one process: the same cores as in broker processes, the same commands, and disks that lose
// power exactly, without a socket, a file or a clock.
//
// [Stage] moves step by step, for schedules. [World] takes the same steps in microseconds, for search: at random ([Search]), or
// everything within a scope ([Scope]). What is found is shrunk ([Shrink]), told ([Annotate]) and explained ([Explain]); none of it
// is reported before it was played on a stage and judged by the checker. README.md has the figures. Package virtual has the same cores run freely, in virtual
// time. Only these two of the harness import the cores themselves.
package sim
