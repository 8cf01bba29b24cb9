package signin

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/oauth2"

	"mcp-gateway/internal/control"
	"mcp-gateway/internal/secret"
	"mcp-gateway/internal/telemetry"
)

// storedClient is a client in a file.
type storedClient struct {
	ID         string           `json:"id"`
	Secret     string           `json:"secret,omitempty"`
	Style      oauth2.AuthStyle `json:"style"`
	Registered string           `json:"registered,omitempty"`
	Expires    time.Time        `json:"expires,omitzero"`
	Scopes     []string         `json:"scopes,omitempty"`
}

// stored is a sign-in in a file: that of one server, at its URL.
type stored struct {
	Server   string       `json:"server"`
	URL      string       `json:"url"`
	UID      string       `json:"uid"`
	Version  int          `json:"version"`
	Created  time.Time    `json:"created"`
	Updated  time.Time    `json:"updated"`
	Token    string       `json:"token"`
	Refresh  string       `json:"refreshToken,omitempty"`
	Obtained time.Time    `json:"obtained"`
	Expires  time.Time    `json:"expires,omitzero"`
	Scopes   []string     `json:"scopes,omitempty"`
	Issuer   string       `json:"issuer"`
	TokenURL string       `json:"tokenUrl"`
	Resource string       `json:"resource"`
	Metadata string       `json:"metadataUrl,omitempty"`
	Client   storedClient `json:"client"`
}

func (c client) stored() storedClient {
	return storedClient{ID: c.id, Secret: c.secret.Reveal(), Style: c.style, Registered: c.registered, Expires: c.expires, Scopes: c.scopes}
}

func (c storedClient) client() client {
	return client{id: c.ID, secret: secret.Value(c.Secret), style: c.Style, registered: c.Registered, expires: c.Expires, scopes: c.Scopes}
}

const clientsFile = "clients.json"

// file is where a server's sign-in is kept. Names of servers hold anything.
func (s *Server) file() string {
	sum := sha256.Sum256([]byte(s.name))
	return "server-" + hex.EncodeToString(sum[:16]) + ".json"
}

// load takes a server's sign-in from its file. That of another URL is not for this one.
func (s *Server) load() {
	m := s.m
	if m.o.Dir == "" {
		return
	}
	var f stored
	err := m.read(s.file(), &f)
	if err != nil || f.Server != s.name || f.URL != s.url.String() || f.Token == "" {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			m.o.Log.Warn("kept sign-in not read", telemetry.KeyServer, s.name, telemetry.KeyError, err)
		}
		return
	}
	s.challenge.metadata = f.Metadata
	s.cred = &credential{
		token: secret.Value(f.Token), refresh: secret.Value(f.Refresh), obtained: f.Obtained, expires: f.Expires, scopes: f.Scopes,
		grant: grant{issuer: f.Issuer, tokenURL: f.TokenURL, resource: f.Resource, client: f.Client.client()},
	}
	s.cred.by = &attempt{
		s: s, uid: f.UID, version: f.Version, created: f.Created, updated: f.Updated, status: control.AuthorizationAuthorized,
		over: make(chan struct{}),
	}
	s.newest = s.cred.by
}

// save writes a server's sign-in to its file, or removes that where there is none.
func (s *Server) save() {
	s.m.write(s.file(), s.name, func() (v any, mine bool) {
		c, now := s.cred, s.m.servers[s.name]
		if c == nil || now != s {
			return nil, now == nil || now == s
		}
		a := c.by
		return stored{
			Server: s.name, URL: s.url.String(), UID: a.uid, Version: a.version, Created: a.created, Updated: a.updated,
			Token: c.token.Reveal(), Refresh: c.refresh.Reveal(), Obtained: c.obtained, Expires: c.expires, Scopes: c.scopes,
			Issuer: c.grant.issuer, TokenURL: c.grant.tokenURL, Resource: c.grant.resource, Client: c.grant.client.stored(),
			Metadata: s.challenge.metadata,
		}, true
	})
}

// loadClients takes the registered clients from their file.
func (m *Manager) loadClients() (map[string]client, error) {
	clients := map[string]client{}
	if m.o.Dir == "" {
		return clients, nil
	}
	if err := os.MkdirAll(m.o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder for sign-ins: %w", err)
	}
	var kept []storedClient
	if err := m.read(clientsFile, &kept); err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.o.Log.Warn("kept clients not read", telemetry.KeyError, err)
	}
	for _, c := range kept {
		clients[c.Registered] = c.client()
	}
	return clients, nil
}

func (m *Manager) saveClients() {
	m.write(clientsFile, "", func() (any, bool) {
		kept := []storedClient{}
		for _, c := range m.clients {
			kept = append(kept, c.stored())
		}
		return kept, true
	})
}

func (m *Manager) read(name string, into any) error {
	text, err := os.ReadFile(filepath.Join(m.o.Dir, name))
	if err != nil {
		return err
	}
	if json.Unmarshal(text, into) != nil {
		return fmt.Errorf("%q is not of the right form", name) // the error of the decoder may quote it
	}
	return nil
}

// write puts into a file what there is at this moment, removes it where that is nil, or leaves it where it
// is another's. The files' own lock is held meanwhile, so that the last one to write has seen the newest.
func (m *Manager) write(name, server string, content func() (v any, mine bool)) {
	if m.o.Dir == "" {
		return
	}
	m.files.Lock()
	defer m.files.Unlock()
	m.mu.Lock()
	v, mine := content()
	m.mu.Unlock()
	if !mine {
		return
	}
	path := filepath.Join(m.o.Dir, name)
	var err error
	if v == nil {
		if err = os.Remove(path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	} else {
		var text []byte
		if text, err = json.Marshal(v); err == nil {
			err = renameio.WriteFile(path, text, 0o600, renameio.IgnoreUmask())
		}
	}
	if err != nil {
		m.o.Log.Error("sign-in not kept", telemetry.KeyServer, server, telemetry.KeyError, err)
	}
}
