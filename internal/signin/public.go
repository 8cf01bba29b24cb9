package signin

import (
	"cmp"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"

	"mcp-gateway/internal/telemetry"
)

// publicURL is where users' browsers reach the gateway.
type publicURL struct {
	explicit bool // given on purpose
	learned  atomic.Pointer[string]
	settled  atomic.Bool // no request can teach anything better
	// plain is the Host of a request that no proxy had marked and that taught nothing: clients on this
	// machine send it with every call.
	plain atomic.Pointer[string]
}

func (p *publicURL) set(given string) {
	if given == "" {
		return
	}
	given = strings.TrimRight(given, "/")
	p.explicit = true
	p.learned.Store(&given)
	p.settled.Store(true)
}

// redirect is where authorization servers send users; "" where that is not known. explicit tells that the
// public URL was given on purpose.
func (p *publicURL) redirect() (redirect string, explicit bool) {
	if base := p.learned.Load(); base != nil {
		return *base + callbackPath, p.explicit
	}
	return "", false
}

// PublicURL is where clients from elsewhere reach the gateway; "" where that is not known.
func (m *Manager) PublicURL() string {
	if base := m.public.learned.Load(); base != nil && m.public.settled.Load() {
		return *base
	}
	return ""
}

// Learn takes the public URL from an authorised request, where none was given: from the first one, or from
// the first that came by another name than this machine's own.
func (m *Manager) Learn(r *http.Request) {
	p := &m.public
	if p.settled.Load() {
		return
	}
	plain := r.TLS == nil && r.Header["X-Forwarded-Host"] == nil && r.Header["X-Forwarded-Proto"] == nil && r.Header["Forwarded"] == nil
	if last := p.plain.Load(); plain && last != nil && *last == r.Host {
		return
	}
	base, local := baseOf(r)
	old := p.learned.Load()
	if base == "" || old != nil && (local || *old == base) {
		if plain {
			host := r.Host
			p.plain.Store(&host)
		}
		return
	}
	if p.learned.CompareAndSwap(old, &base) {
		p.settled.Store(!local)
		m.o.Log.Info("public URL learned from a request, for sign-ins", telemetry.KeyURL, base, telemetry.KeyHint, "--public-url sets it")
	}
}

// hostForm is a host with or without a port, and nothing that could be more of a URL.
var hostForm = regexp.MustCompile(`^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)

// baseOf reads the URL that a client has used, which proxies hand on. local tells that it is this machine's own.
func baseOf(r *http.Request) (base string, local bool) {
	host := firstOf(r.Header.Get("X-Forwarded-Host"))
	proto := firstOf(r.Header.Get("X-Forwarded-Proto"))
	for pair := range strings.SplitSeq(firstOf(r.Header.Get("Forwarded")), ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		value = strings.Trim(value, `"`)
		switch strings.ToLower(name) {
		case "host":
			host = cmp.Or(host, value)
		case "proto":
			proto = cmp.Or(proto, value)
		}
	}
	host = cmp.Or(host, r.Host)
	if !hostForm.MatchString(host) {
		return "", false
	}
	name := hostOf(host)
	_, notIP := netip.ParseAddr(name)
	local = isLoopback(name)
	switch proto = strings.ToLower(proto); {
	case proto == "http" || proto == "https":
	case r.TLS == nil && (local || notIP == nil):
		proto = "http"
	default: // a sandbox's proxy ends TLS, and not every one says so
		proto = "https"
	}
	return (&url.URL{Scheme: proto, Host: host}).String(), local
}

// firstOf is the first element of a header that each proxy adds to.
func firstOf(header string) string {
	head, _, _ := strings.Cut(header, ",")
	return strings.TrimSpace(head)
}
