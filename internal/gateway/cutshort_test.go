package gateway

import (
	"context"
	"errors"
	"testing"
)

// A5: servers that the limit has ended are named, also when the launcher gives up while they end.
func TestA5_LimitBeforeLauncher(t *testing.T) {
	gone, limit := errors.New("launcher is gone"), errors.New("limit")
	for name, c := range map[string]struct {
		ends []error // in this order
		want error
	}{
		"neither":                      {nil, nil},
		"the limit":                    {[]error{limit}, nil},
		"the limit, then the launcher": {[]error{limit, gone}, nil},
		"the launcher":                 {[]error{gone}, gone},
		"the launcher, then the limit": {[]error{gone, limit}, gone},
	} {
		ctx, leave := context.WithCancelCause(t.Context())
		budget, pass := context.WithCancelCause(ctx)
		for _, end := range c.ends {
			if end == gone {
				leave(gone)
			} else {
				pass(limit)
			}
		}
		if got := cutShort(ctx, budget); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
		pass(nil)
		leave(nil)
	}
}
