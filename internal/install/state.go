package install

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"

	"mcp-gateway/internal/fault"
)

// StateDir is a server's own folder below the servers' folder, for what it keeps between starts.
func StateDir(dir, server string) string { return filepath.Join(dir, "state", folderName(server)) }

var plainName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$`)

// folderName makes one path element of a server's name, which may be any text. What is no plain word
// ends in a hash after a ~, which no plain word has.
func folderName(server string) string {
	if plainName.MatchString(server) {
		return server
	}
	sum := sha256.Sum256([]byte(server))
	kept := regexp.MustCompile(`[^A-Za-z0-9_-]+`).ReplaceAllString(server, "_")
	return kept[:min(len(kept), 64)] + "~" + hex.EncodeToString(sum[:6])
}

// makeState makes the server's state folder where the entry names it, and gives it to the user that
// the server runs as.
func (j *job) makeState() error {
	if !j.needsState {
		return nil
	}
	dir := StateDir(j.opts.Dir, j.server)
	err := os.MkdirAll(filepath.Dir(dir), folderMode)
	if err == nil {
		if err = os.Mkdir(dir, 0o700); os.IsExist(err) {
			err = nil
		}
	}
	if err == nil && j.user != "" {
		err = giveTo(dir, j.user)
	}
	if err != nil {
		return &fault.Fault{Server: j.server, Cause: fault.BadConfig, Err: fmt.Errorf("make its state folder: %w", err)}
	}
	return nil
}

// giveTo makes a user the owner of a folder, unless it is already.
func giveTo(dir, name string) error {
	u, err := user.Lookup(name)
	if err != nil {
		if u, err = user.LookupId(name); err != nil {
			return nil // the start of the process tells it better
		}
	}
	uid, errUID := strconv.Atoi(u.Uid)
	gid, errGID := strconv.Atoi(u.Gid)
	if errUID != nil || errGID != nil || uid == os.Geteuid() {
		return nil
	}
	return os.Chown(dir, uid, gid)
}
