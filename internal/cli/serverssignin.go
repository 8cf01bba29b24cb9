package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"mcp-gateway/internal/control"
)

type signInOptions struct {
	*app
	force   bool
	wait    bool
	timeout time.Duration
}

const signInLong = `Sign in to a remote server.

The address to open in a browser is printed on standard output; whoever opens it signs in there. With
--wait the command ends when that is done, with exit code 1 where it was refused or has expired. With
--json the sign-in is printed as an object, and with --wait a second one in its end.

Where somebody has signed in already nothing is begun; --force begins anew, and the present credentials
serve until the new ones are there. A sign-in that is pending is the same again.`

func newServersSignInCommand(a *app) *cobra.Command {
	o := &signInOptions{app: a}
	cmd := &cobra.Command{
		Use:               "signin NAME",
		Short:             "Sign in to a remote server: print the address to open",
		Long:              signInLong,
		Args:              one("NAME"),
		ValidArgsFunction: a.completeOneServer,
		RunE:              func(cmd *cobra.Command, args []string) error { return runSignIn(cmd.Context(), o, args[0]) },
	}
	cmd.Flags().BoolVar(&o.force, "force", false, "begin a new sign-in where somebody is signed in")
	cmd.Flags().BoolVar(&o.wait, "wait", false, "wait for the end of the sign-in")
	cmd.Flags().DurationVar(&o.timeout, "timeout", control.MaxWait, "wait at most `DURATION`")
	return cmd
}

// signInRow is a sign-in as scripts read it.
type signInRow struct {
	Server           string        `json:"server"`
	UID              string        `json:"uid"`
	Status           string        `json:"status"`
	AuthorizationURL string        `json:"authorization_url"`
	CreatedAt        *time.Time    `json:"created_at"`
	UpdatedAt        *time.Time    `json:"updated_at"`
	ExpiresAt        *time.Time    `json:"expires_at"`
	Failure          *signInFailed `json:"failure"`
}

// signInFailed is why a sign-in failed.
type signInFailed struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func newSignInRow(server string, a control.Authorization) signInRow {
	at := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		return &t
	}
	row := signInRow{Server: server, UID: a.UID, Status: string(a.Status), AuthorizationURL: a.AuthorizationURL,
		CreatedAt: at(a.CreatedAt), UpdatedAt: at(a.UpdatedAt), ExpiresAt: at(a.ExpiresAt)}
	if a.Failure != nil {
		row.Failure = &signInFailed{Code: snakeCase(string(a.Failure.Code)), Message: a.Failure.Message}
	}
	return row
}

// runSignIn begins a sign-in, shows its address, and waits for its end where that is asked for.
func runSignIn(ctx context.Context, o *signInOptions, server string) error {
	got, err := o.control().Authorize(ctx, server, control.AuthorizeRequest{ForceReauth: o.force})
	if err != nil {
		return advise(err, server, listsServers)
	}
	if err := o.show(server, got); err != nil {
		return err
	}
	if o.wait && got.Status == control.AuthorizationPending {
		if got, err = o.waitForEnd(ctx, server, got); err != nil {
			return err
		}
		if o.global.json {
			if err := writeJSON(o.Out, newSignInRow(server, got)); err != nil {
				return err
			}
		}
	}
	if got.Status == control.AuthorizationFailed {
		return signInError(server, got)
	}
	return nil
}

// show prints the address alone on standard output, so that it can be taken from there.
func (o *signInOptions) show(server string, a control.Authorization) error {
	if o.global.json {
		return writeJSON(o.Out, newSignInRow(server, a))
	}
	if a.Status != control.AuthorizationPending {
		return nil
	}
	if o.errIsTerminal() {
		fmt.Fprintf(o.Err, "open this address to sign in to %q, until %s:\n", server, a.ExpiresAt.Local().Format(time.TimeOnly))
	}
	_, err := fmt.Fprintln(o.Out, cleanLine(a.AuthorizationURL))
	return err
}

// waitForEnd returns the attempt when it is over. A later attempt is not taken for it.
func (o *signInOptions) waitForEnd(ctx context.Context, server string, begun control.Authorization) (control.Authorization, error) {
	waiting, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	for {
		got, err := o.control().Authorization(waiting, server, o.timeout)
		switch {
		case waiting.Err() != nil && ctx.Err() == nil:
			return begun, &statedError{verdict: verdict{exit: exitNotRunning, code: "timed_out"},
				err: fmt.Errorf("sign in to server %q: nobody has done so after %s", server, o.timeout)}
		case err != nil:
			return begun, err
		case got.UID != begun.UID:
			return begun, &statedError{verdict: verdict{exit: exitFailed, code: "sign_in_replaced"},
				err: fmt.Errorf("sign in to server %q: another sign-in has been begun meanwhile", server)}
		case got.Status != control.AuthorizationPending:
			return got, nil
		}
	}
}

func signInError(server string, a control.Authorization) error {
	reason := errors.New("it was not granted")
	if a.Failure != nil {
		reason = a.Failure
	}
	return &statedError{verdict: verdict{exit: exitFailed, code: "sign_in_failed"},
		err: fmt.Errorf("sign in to server %q: %w", server, reason)}
}
