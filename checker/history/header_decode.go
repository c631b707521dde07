package history

import (
	"errors"
	"fmt"
	"math"
)

// versionKey is the first line's mark: a file whose first line is an object with this key is a history.
const versionKey = "tidemark-history"

// header decodes the first line. A line of another version is not looked at any further.
func (d *decoder) header(line []byte) (Header, error) {
	v, err := headerVersion(line)
	if err != nil {
		return Header{}, err
	}
	if v != Version {
		return Header{}, fmt.Errorf("%w: it is %d, this program reads %d", ErrVersion, v, Version)
	}
	h := Header{Version: Version}
	s := &d.scan
	s.reset(line)
	err = d.members(func(key string) (err error) {
		switch key {
		case versionKey:
			_, err = s.int64()
		case "contract":
			err = d.members(func(key string) error { return d.contract(key, &h.Contract) })
		case "topics":
			err = s.list(func() error {
				var t Topic
				err := d.members(func(key string) error { return d.topic(key, &t) })
				h.Topics = append(h.Topics, t)
				return err
			})
		case "meta":
			h.Meta = map[string]string{}
			err = d.members(func(key string) error {
				v, err := s.string()
				h.Meta[key] = string(v)
				return err
			})
		default:
			err = errUnknownField
		}
		return err
	})
	if err != nil {
		return Header{}, err
	}
	return h, s.end()
}

// headerVersion finds the version wherever it stands, skipping what a foreign version may hold.
func headerVersion(line []byte) (int64, error) {
	var s scanner
	s.reset(line)
	var version int64
	found := false
	err := s.object(func(key []byte) error {
		if string(key) != versionKey {
			return s.skip(0)
		}
		var err error
		found = true
		version, err = s.int64()
		if err != nil {
			return &fieldError{versionKey, err}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNotHistory, err)
	}
	if !found {
		return 0, fmt.Errorf("%w: field %q is missing from the first line", ErrNotHistory, versionKey)
	}
	return version, nil
}

var errUnknownField = errors.New("is not a field of this format")

// members reads an object whose keys are each allowed once.
func (d *decoder) members(member func(key string) error) error {
	seen := map[string]bool{}
	return d.scan.object(func(b []byte) error {
		key := string(b)
		if seen[key] {
			return &fieldError{key, errors.New("stands twice")}
		}
		seen[key] = true
		err := member(key)
		var inner *fieldError
		if err == nil || errors.As(err, &inner) {
			return err
		}
		return &fieldError{key, err}
	})
}

func (d *decoder) contract(key string, c *Contract) (err error) {
	s := &d.scan
	switch key {
	case "acks":
		c.Acks, err = d.wordField()
	case "min.insync.replicas":
		c.MinISR, err = s.int()
	case "unclean.leader.election.enable":
		c.Unclean, err = s.bool()
	case "protocol":
		c.Protocol, err = d.wordField()
	case "crash-budget":
		var b string
		b, err = d.wordField()
		c.CrashBudget = CrashBudget(b)
	case "bar":
		c.Bar, err = d.wordField()
	default:
		err = errUnknownField
	}
	return err
}

func (d *decoder) topic(key string, t *Topic) (err error) {
	switch key {
	case "name":
		t.Name, err = d.wordField()
	case "partitions":
		t.Partitions, err = d.scan.int()
	case "replicas":
		t.Replicas, err = d.scan.int()
	default:
		err = errUnknownField
	}
	return err
}

func (s *scanner) int() (int, error) {
	v, err := s.int64()
	if err == nil && (v < math.MinInt32 || v > math.MaxInt32) {
		err = errRange
	}
	return int(v), err
}

// maxNesting stops a hostile first line from exhausting the stack.
const maxNesting = 100

// skip reads over any value.
func (s *scanner) skip(depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("more than %d levels of nesting", maxNesting)
	}
	switch c := s.peek(); c {
	case '{':
		return s.object(func([]byte) error { return s.skip(depth + 1) })
	case '[':
		return s.list(func() error { return s.skip(depth + 1) })
	case '"':
		_, err := s.string()
		return err
	}
	start := s.pos
	for s.pos < len(s.buf) {
		switch c := s.buf[s.pos]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '+', c == '.', c == 'E':
			s.pos++
			continue
		}
		break
	}
	if s.pos == start {
		return fmt.Errorf("want a value, have %s", s.have())
	}
	return nil
}
