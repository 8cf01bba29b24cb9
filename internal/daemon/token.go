package daemon

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"mcp-gateway/internal/secret"
)

// NewToken makes a token of 32 random bytes, in hex.
func NewToken() secret.Value {
	var b [32]byte
	rand.Read(b[:]) // never fails: see crypto/rand
	return secret.Value(hex.EncodeToString(b[:]))
}

// WriteToken writes the token file: the token alone, for the owner only, never seen half written.
func WriteToken(p Paths, token secret.Value) error {
	path := p.Token()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the token's folder: %w", err)
	}
	if err := replaceFile(path, token.Reveal(), 0o600); err != nil {
		return fmt.Errorf("write token file: %w", err)
	}
	return nil
}

// replaceFile writes a file that is never seen half written, and has this mode whatever mode an older
// file of that name had. It does not wait for the disk, as a library for this would: after a power
// loss there is no gateway that the file could be about, and the wait can take longer than the start.
func replaceFile(path, text string, mode os.FileMode) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Chmod(mode), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// ReadToken reads the token file. White space around the token is no part of it: a person may have
// written the file by hand.
func ReadToken(p Paths) (secret.Value, error) {
	b, err := os.ReadFile(p.Token())
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" {
		return "", fmt.Errorf("read token: %q is empty", p.Token())
	}
	return secret.Value(token), nil
}
