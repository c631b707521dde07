package history

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads one line of JSON. It takes any JSON spelling of what the format holds (order of keys, white space, escapes), so
// that other tools can write histories with the encoder they have, and is several times as fast as the standard decoder.
type scanner struct {
	buf []byte
	pos int
	// text holds strings that had escapes; the next such string overwrites it.
	text []byte
}

func (s *scanner) reset(line []byte) { s.buf, s.pos = line, 0 }

func (s *scanner) space() {
	for s.pos < len(s.buf) {
		switch s.buf[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return
		}
	}
}

// peek returns the next byte that is not white space, 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.pos == len(s.buf) {
		return 0
	}
	return s.buf[s.pos]
}

func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.pos++
	return true
}

func (s *scanner) expect(c byte) error {
	if s.take(c) {
		return nil
	}
	return fmt.Errorf("want %q, have %s", string(c), s.have())
}

// have shows what stands at the place of an error.
func (s *scanner) have() string {
	s.space()
	if s.pos == len(s.buf) {
		return "the end of the line"
	}
	const shown = 20
	rest := s.buf[s.pos:]
	if len(rest) > shown {
		return fmt.Sprintf("%q...", rest[:shown])
	}
	return fmt.Sprintf("%q", rest)
}

// end makes sure that nothing follows.
func (s *scanner) end() error {
	if s.peek() == 0 && s.pos == len(s.buf) {
		return nil
	}
	return fmt.Errorf("want the end of the line, have %s", s.have())
}

// list calls item for each element between the brackets.
func (s *scanner) list(item func() error) error {
	if err := s.expect('['); err != nil {
		return err
	}
	if s.take(']') {
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		if s.take(']') {
			return nil
		}
		if err := s.expect(','); err != nil {
			return err
		}
	}
}

// object calls member for each key, which is valid until the next call of the scanner; member must consume the value.
func (s *scanner) object(member func(key []byte) error) error {
	if err := s.expect('{'); err != nil {
		return err
	}
	if s.take('}') {
		return nil
	}
	for {
		key, err := s.string()
		if err != nil {
			return err
		}
		if err := s.expect(':'); err != nil {
			return err
		}
		if err := member(key); err != nil {
			return err
		}
		if s.take('}') {
			return nil
		}
		if err := s.expect(','); err != nil {
			return err
		}
	}
}

var errRange = errors.New("integer is out of range")

func (s *scanner) int64() (int64, error) {
	s.space()
	i, neg := s.pos, false
	if i < len(s.buf) && s.buf[i] == '-' {
		neg = true
		i++
	}
	first := i
	var v uint64
	for ; i < len(s.buf) && s.buf[i] >= '0' && s.buf[i] <= '9'; i++ {
		if v > math.MaxInt64/10 {
			return 0, errRange
		}
		v = v*10 + uint64(s.buf[i]-'0')
	}
	switch {
	case i == first, i-first > 1 && s.buf[first] == '0', i < len(s.buf) && (s.buf[i] == '.' || s.buf[i] == 'e' || s.buf[i] == 'E'):
		return 0, fmt.Errorf("want an integer, have %s", s.have())
	case neg && v <= math.MaxInt64+1:
		s.pos = i
		return -int64(v), nil
	case neg || v > math.MaxInt64:
		return 0, errRange
	}
	s.pos = i
	return int64(v), nil
}

func (s *scanner) int32() (int32, error) {
	v, err := s.int64()
	if err == nil && int64(int32(v)) != v {
		err = errRange
	}
	return int32(v), err
}

func (s *scanner) bool() (bool, error) {
	s.space()
	rest := s.buf[s.pos:]
	switch {
	case len(rest) >= 4 && string(rest[:4]) == "true":
		s.pos += 4
		return true, nil
	case len(rest) >= 5 && string(rest[:5]) == "false":
		s.pos += 5
		return false, nil
	}
	return false, fmt.Errorf("want true or false, have %s", s.have())
}

// string returns the text of a string, valid until the next call of the scanner.
func (s *scanner) string() ([]byte, error) {
	if s.peek() != '"' {
		return nil, fmt.Errorf("want a string, have %s", s.have())
	}
	start := s.pos + 1
	ascii := true
	for i := start; i < len(s.buf); i++ {
		c := s.buf[i]
		switch {
		case c == '"':
			text := s.buf[start:i]
			if !ascii && !utf8.Valid(text) {
				return nil, fmt.Errorf("string %q is not UTF-8", text)
			}
			s.pos = i + 1
			return text, nil
		case c == '\\':
			return s.escaped(start, i)
		case c < ' ':
			return nil, fmt.Errorf("control character %#02x in a string must be escaped", c)
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return nil, errors.New("string does not end on its line")
}

var plainEscapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escaped reads a string that began at start and has its first backslash at i.
func (s *scanner) escaped(start, i int) ([]byte, error) {
	s.text = append(s.text[:0], s.buf[start:i]...)
	for i < len(s.buf) {
		c := s.buf[i]
		switch {
		case c == '"':
			if !utf8.Valid(s.text) {
				return nil, fmt.Errorf("string %q is not UTF-8", s.text)
			}
			s.pos = i + 1
			return s.text, nil
		case c < ' ':
			return nil, fmt.Errorf("control character %#02x in a string must be escaped", c)
		case c != '\\':
			s.text = append(s.text, c)
			i++
		case i+1 == len(s.buf):
			return nil, errors.New("string does not end on its line")
		case s.buf[i+1] == 'u':
			r, n, err := s.codeUnits(i)
			if err != nil {
				return nil, err
			}
			s.text = utf8.AppendRune(s.text, r)
			i += n
		default:
			p := plainEscapes[s.buf[i+1]]
			if p == 0 {
				return nil, fmt.Errorf("escape %q is not JSON's", s.buf[i:i+2])
			}
			s.text = append(s.text, p)
			i += 2
		}
	}
	return nil, errors.New("string does not end on its line")
}

// codeUnits reads one \u escape at i, or two that are a surrogate pair, and returns how many bytes they take. A lone surrogate
// is an error: no text has it, and a replacement could make two values one.
func (s *scanner) codeUnits(i int) (rune, int, error) {
	hi, ok := hex4(s.buf, i)
	if !ok {
		return 0, 0, errors.New(`\u needs four hexadecimal digits`)
	}
	if !utf16.IsSurrogate(hi) {
		return hi, 6, nil
	}
	lo, ok := hex4(s.buf, i+6)
	if r := utf16.DecodeRune(hi, lo); ok && r != utf8.RuneError {
		return r, 12, nil
	}
	return 0, 0, fmt.Errorf(`\u%04x is half of a surrogate pair`, hi)
}

func hex4(b []byte, i int) (rune, bool) {
	if i+6 > len(b) || b[i] != '\\' || b[i+1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range b[i+2 : i+6] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
