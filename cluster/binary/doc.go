// Package binary finds the tidemark executable that nodes run, or builds it.
//
// The nodes of a run are processes of tidemark itself, started with a node command, so every backend needs an
// executable to start. Whoever asks may not be one: a test binary has no node command. And containers ask for more than
// child processes do. Their image has nothing in it but the executable, so it must be a static one for Linux; but with a
// C compiler on the machine, "go run", "go build" and the race detector all make executables that need a dynamic loader,
// and those die in such an image with a "no such file or directory" that names the wrong file.
//
// [Find] looks in this order and never goes on silently from a wrong answer to the next:
//
//  1. the file that [Options].Path names, else the one that the environment variable [Env] names. If it does not serve,
//     that is an error, because somebody meant it;
//  2. the running executable, if it is tidemark and serves;
//  3. what CGO_ENABLED=0 go build makes of tidemark/cmd/tidemark, from the module of the working folder, or, if that knows
//     no such package, from the sources that the running program was made of, if they are still there. It is kept in
//     the user's cache folder under the hash of its content, so a file that a run uses never changes under it, and the
//     same sources give the same file everywhere (-trimpath);
//  4. an error that wraps [ErrNotFound] and says what was tried and what to do.
//
// Building needs the go command and half a second when nothing has changed. The answer is remembered for the life of the
// process, so that a test binary with many clusters asks once.
package binary
