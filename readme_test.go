package pocketmq_test

import (
	"os"
	"strings"
	"testing"
)

// TestReadmeShowsTheExample wants the program in the README to be the Example,
// which go test runs.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(source), "func Example() {\n")
	body, _, found := strings.Cut(body, "\t// Output:")
	if !found {
		t.Fatal("example_test.go has no Example with an output")
	}
	lines := strings.Split(strings.TrimRight(body, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, "\t")
	}
	if len(lines) > 15 {
		t.Errorf("the example has %d lines, more than 15", len(lines))
	}
	if !strings.Contains(string(readme), "```go\n"+strings.Join(lines, "\n")+"\n```") {
		t.Errorf("README.md does not show the example as it is:\n%s", strings.Join(lines, "\n"))
	}
}
