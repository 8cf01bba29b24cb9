package process

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// credential looks a user up, by name or number. Without a credential the gateway is that user already.
func credential(name string) (*user.User, *syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		var byID error
		if u, byID = user.LookupId(name); byID != nil {
			return nil, nil, fmt.Errorf("look up user %q: %w", name, err)
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, nil, fmt.Errorf("read uid %q of user %q: %w", u.Uid, name, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, nil, fmt.Errorf("read gid %q of user %q: %w", u.Gid, name, err)
	}
	if os.Geteuid() == int(uid) {
		return u, nil, nil
	}
	if os.Geteuid() != 0 {
		return nil, nil, fmt.Errorf("switch to user %q: %w", name, errors.New("only root can switch users"))
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil, nil, fmt.Errorf("look up the groups of user %q: %w", name, err)
	}
	cred := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	for _, id := range ids {
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, nil, fmt.Errorf("read group %q of user %q: %w", id, name, err)
		}
		cred.Groups = append(cred.Groups, uint32(n))
	}
	return u, cred, nil
}
