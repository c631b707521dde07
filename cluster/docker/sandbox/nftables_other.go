//go:build !linux

package sandbox

import (
	"errors"
	"fmt"
	"runtime"
)

type noFilter struct{}

func newFilter() filter { return noFilter{} }

var errNoFilter = fmt.Errorf("packet rules on %s: %w", runtime.GOOS, errors.ErrUnsupported)

func (noFilter) replace([]Rule) ([]Counter, error) { return nil, errNoFilter }

func (noFilter) count() ([]Counter, error) { return nil, errNoFilter }
