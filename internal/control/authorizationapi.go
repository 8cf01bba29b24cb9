package control

import (
	"net/http"
	"time"
)

// getAuthorization answers at once, or with ?wait= when the sign-in is no longer pending, has changed
// against If-None-Match, or the time is over.
func (a *api) getAuthorization(q request) (answer, error) {
	wait, waits, err := q.wait()
	if err != nil {
		return answer{}, err
	}
	known := q.Header.Values("If-None-Match")
	var got Authorization
	look := func() bool {
		got, err = a.b.Authorization(q.server)
		return err != nil || got.Status != AuthorizationPending || len(known) > 0 && !matchesWeakly(known, got.ETag)
	}
	if !look() && waits {
		a.until(q.Context(), wait, look)
	}
	if err != nil {
		return answer{}, err
	}
	if matchesWeakly(known, got.ETag) {
		return answer{status: http.StatusNotModified, etag: got.ETag}, nil
	}
	return authorizationAnswer(got, http.StatusOK), nil
}

// authorize answers 202 while the sign-in is pending, else 200.
func (a *api) authorize(q request) (answer, error) {
	var ask AuthorizeRequest
	err := q.read(
		field{name: "remoteUrl", read: address(&ask.RemoteURL)},
		field{name: "forceReauth", read: boolean(&ask.ForceReauth)},
	)
	if err != nil {
		return answer{}, err
	}
	match, err := a.ifMatch(q)
	if err != nil {
		return answer{}, err
	}
	got, err := a.b.Authorize(q.Context(), q.server, match, ask)
	if err != nil {
		return answer{}, err
	}
	if got.Status == AuthorizationPending {
		return authorizationAnswer(got, http.StatusAccepted), nil
	}
	return authorizationAnswer(got, http.StatusOK), nil
}

// ifMatch turns the header, which may be a list or "*", into the one tag that the backend compares again
// when it acts. Where nothing is there yet the backend says what is wrong.
func (a *api) ifMatch(q request) (string, error) {
	header := q.Header.Values("If-Match")
	if len(header) == 0 {
		return "", nil
	}
	current, err := a.b.Authorization(q.server)
	if err != nil {
		return header[0], nil
	}
	if !matchesStrongly(header, current.ETag) {
		return "", ETagMismatch(current.ETag)
	}
	return current.ETag, nil
}

func (a *api) submitCode(q request) (answer, error) {
	var code CodeRequest
	err := q.read(
		field{name: "code", read: optionalText(&code.Code)},
		field{name: "state", required: true, read: text(&code.State)},
		field{name: "iss", read: optionalText(&code.Issuer)},
		field{name: "error", read: optionalText(&code.Error)},
		field{name: "errorDescription", read: optionalText(&code.ErrorDescription)},
	)
	if err != nil {
		return answer{}, err
	}
	if (code.Code == "") == (code.Error == "") {
		return answer{}, badRequest([]Violation{{"code", "or error is needed, one of them", required}})
	}
	got, err := a.b.SubmitCode(q.Context(), q.server, code)
	if err != nil {
		return answer{}, err
	}
	return authorizationAnswer(got, http.StatusOK), nil
}

// authorizationAnswer shows a sign-in, its times in UTC.
func authorizationAnswer(got Authorization, status int) answer {
	for _, at := range []*time.Time{&got.CreatedAt, &got.UpdatedAt, &got.ExpiresAt} {
		if !at.IsZero() {
			*at = at.UTC()
		}
	}
	return answer{status: status, body: got, etag: got.ETag}
}
