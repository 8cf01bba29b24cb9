package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// outcome is what a client says about one capability. OK is nil where the client has no API for it.
type outcome struct {
	Capability string `json:"capability"`
	OK         *bool  `json:"ok"`
	Detail     string `json:"detail"`
}

// stepLimit bounds each capability of a client.
const stepLimit = 30 * time.Second

// action shows one capability and returns a detail of it.
type action func(context.Context) (string, error)

// runSteps runs the steps that clients driven from Go have, as the scripts of the other clients do:
// the capability "read=URI" is the step "read" with an argument.
func runSteps(ctx context.Context, capabilities []string, steps func(argument string) map[string]action) []outcome {
	var outcomes []outcome
	for _, capability := range capabilities {
		name, argument, _ := strings.Cut(capability, "=")
		do := steps(argument)[name]
		if do == nil {
			outcomes = append(outcomes, outcome{Capability: capability, Detail: "no API"})
			continue
		}
		sctx, cancel := context.WithTimeout(ctx, stepLimit)
		detail, err := do(sctx)
		cancel()
		ok := err == nil
		if err != nil {
			detail = err.Error()
		}
		outcomes = append(outcomes, outcome{capability, &ok, detail})
	}
	return outcomes
}

// broken are the steps of a client that could not connect.
func broken(capabilities []string, err error) map[string]action {
	steps := map[string]action{}
	for _, capability := range capabilities {
		name, _, _ := strings.Cut(capability, "=")
		steps[name] = func(context.Context) (string, error) { return "", err }
	}
	return steps
}

// sorted is a list as the scripts print it.
func sorted(names []string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	slices.Sort(names)
	text, err := json.Marshal(names)
	return string(text), err
}

// listed is an error unless a list has an entry.
func listed(ctx context.Context, list action, entry string) error {
	text, err := list(ctx)
	if err == nil && !strings.Contains(text, `"`+entry+`"`) {
		err = fmt.Errorf("%q is not in %s", entry, text)
	}
	return err
}

// want is got, or an error where it is something else.
func want(got, want string, err error) (string, error) {
	if err == nil && got != want {
		err = fmt.Errorf("got %q", got)
	}
	return got, err
}
