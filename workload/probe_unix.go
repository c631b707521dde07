//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package workload

import (
	"net"
	"syscall"
)

// probe looks whether the other side has closed a connection, without waiting. A request that is written to such a connection has
// an unknown outcome, since the system takes the bytes before it learns that nobody wants them; and every client has a connection
// to every broker, so each broker that dies would cost as many unknowns as there are clients.
type probe struct {
	raw  syscall.RawConn
	peek func(fd uintptr) bool
	n    int
	err  error
	buf  [1]byte
}

// newProbe is nil for connections that are no sockets.
func newProbe(nc net.Conn) *probe {
	s, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	p := &probe{raw: raw}
	p.peek = func(fd uintptr) bool {
		p.n, _, p.err = syscall.Recvfrom(int(fd), p.buf[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return true
	}
	return p
}

// gone reports that the connection has ended. That it has not may be wrong by the time the answer is read. The deadline for
// reading must not be over.
func (p *probe) gone() bool {
	if p == nil {
		return false
	}
	if err := p.raw.Read(p.peek); err != nil {
		return true
	}
	switch p.err {
	case nil:
		return p.n == 0
	case syscall.EAGAIN, syscall.EINTR:
		return false
	}
	return true
}
