//go:build race

package e2e_test

// raceEnabled tells that the test runs with the race detector.
const raceEnabled = true
