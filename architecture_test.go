package pocketmq_test

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// modulePath is how the packages of this module import each other.
const modulePath = "github.com/pocketmq/pocketmq"

// systemPackage is the one package that may differ from one operating system to the next.
const systemPackage = "internal/mmap"

// externals are the packages that this module takes from others, with those packages of ours that may import
// them outside tests. Nothing else may be imported, by tests neither.
var externals = []struct {
	path    string   // the package, and all below it
	allowed []string // paths relative to the module; nil: only tests
}{
	{"github.com/edsrzf/mmap-go", []string{systemPackage}},
	{"golang.org/x/sys", []string{systemPackage}},
	{"github.com/spf13/cobra", []string{"cmd/pocketmq"}},
	{"github.com/spf13/pflag", []string{"cmd/pocketmq"}},
	{"github.com/schollz/progressbar/v3", []string{"cmd/pocketmq"}},
	{"golang.org/x/term", []string{"cmd/pocketmq"}},
	{"github.com/cespare/xxhash/v2", []string{anyPackage}},
	{"github.com/RoaringBitmap/roaring/v2", []string{anyPackage}},
	{"github.com/stretchr/testify", nil},
	{"go.uber.org/goleak", nil},
}

// anyPackage stands for every package of the library, though not for programs and measurements.
const anyPackage = "*"

// TestImportsMatchPicture compares what every package imports with the picture in docs/design.md.
func TestImportsMatchPicture(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("docs", "design.md"))
	if err != nil {
		t.Fatalf("the picture of the packages: %v", err)
	}
	pic, err := parsePicture(string(text))
	if err != nil {
		t.Fatalf("docs/design.md: %v", err)
	}
	imports := make(map[string][]string)
	for dir, pkg := range modulePackages(t) {
		imports[dir] = pkg.internalImports()
	}
	for _, problem := range pic.compare(imports) {
		t.Error(problem)
	}
}

// TestExternalImports keeps foreign packages where they belong.
func TestExternalImports(t *testing.T) {
	for dir, pkg := range modulePackages(t) {
		for _, file := range pkg.files {
			for _, imp := range file.imports {
				if problem := checkExternal(dir, file.test, imp); problem != "" {
					t.Errorf("%s: %s", file.path, problem)
				}
			}
		}
	}
}

// TestPublicAPISuffices keeps examples and measurements, their tests too, to what users of the module can import.
func TestPublicAPISuffices(t *testing.T) {
	for dir, pkg := range modulePackages(t) {
		if !within(dir, "examples") && !within(dir, "bench") {
			continue
		}
		for _, file := range pkg.files {
			for _, imp := range file.imports {
				if within(imp, modulePath+"/internal") {
					t.Errorf("%s imports %s, which no user can", file.path, imp)
				}
			}
		}
	}
}

// TestPackageComments wants every package to say what it is for.
func TestPackageComments(t *testing.T) {
	for dir, pkg := range modulePackages(t) {
		code, documented := 0, 0
		for _, file := range pkg.files {
			if file.test {
				continue
			}
			code++
			if file.doc != "" {
				documented++
			}
		}
		switch {
		case code > 0 && documented == 0:
			t.Errorf("package %s has no package comment", dir)
		case documented > 1:
			t.Errorf("package %s has %d package comments", dir, documented)
		}
	}
}

// TestSystemDifferencesInOnePlace wants everything that depends on the operating system, the processor or a
// build tag in systemPackage.
func TestSystemDifferencesInOnePlace(t *testing.T) {
	for dir, pkg := range modulePackages(t) {
		if within(dir, systemPackage) {
			continue
		}
		for _, file := range pkg.files {
			if file.test {
				continue
			}
			if reason := buildDifference(t, file); reason != "" {
				t.Errorf("%s: %s", file.path, reason)
			}
		}
	}
}

// TestTextNamesNoForeignPlace keeps the places where this project was written out of its files.
func TestTextNamesNoForeignPlace(t *testing.T) {
	// In two parts each, because this file is searched as well.
	forbidden := []string{
		"/wo" + "rk/",
		"../sha" + "red",
		"proxy.go" + "lang.org",
	}
	for _, name := range projectFiles(t) {
		data, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and not yet committed
		}
		if err != nil {
			t.Fatal(err)
		}
		if bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 {
			continue // not text
		}
		for number, line := range strings.Split(string(data), "\n") {
			for _, word := range forbidden {
				if strings.Contains(line, word) {
					t.Errorf("%s:%d contains %q", name, number+1, word)
				}
			}
		}
	}
}

// TestPicture shows how a picture is read and what comparing it with the packages finds.
func TestPicture(t *testing.T) {
	const doc = "# Rooms\n\n```imports\n" +
		"# the facade\n" +
		".: store message\n" +
		"store: message internal/mmap\n" +
		"message:\n" +
		"internal/mmap:\n" +
		"cmd/*: .\n" +
		"```\n\n```go\nnot: a picture\n```\n"
	asDrawn := map[string][]string{
		".": {"message", "store"}, "store": {"internal/mmap", "message"}, "message": nil, "internal/mmap": nil,
		"cmd/one": {"."}, "cmd/two": nil,
	}
	tests := []struct {
		name    string
		change  func(imports map[string][]string)
		problem string // "": none
	}{
		{"as drawn", func(map[string][]string) {}, ""},
		{"import not drawn", func(m map[string][]string) { m["message"] = []string{"store"} },
			"message imports store, which the picture does not allow"},
		{"import not drawn, by pattern", func(m map[string][]string) { m["cmd/two"] = []string{"store"} },
			"cmd/two imports store, which the picture does not allow"},
		{"package not drawn", func(m map[string][]string) { m["broker"] = nil },
			"package broker has no line in the picture"},
		{"package gone", func(m map[string][]string) { delete(m, "internal/mmap") },
			"the picture has a line internal/mmap, but there is no such package"},
		{"pattern without packages", func(m map[string][]string) { delete(m, "cmd/one"); delete(m, "cmd/two") },
			"the picture has a line cmd/*, but there is no such package"},
		{"edge gone", func(m map[string][]string) { m["store"] = []string{"message"} },
			"the picture lets store import internal/mmap, which it no longer does"},
		{"edge gone, by pattern", func(m map[string][]string) { m["cmd/one"] = nil },
			"the picture lets cmd/* import ., which it no longer does"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pic, err := parsePicture(doc)
			if err != nil {
				t.Fatal(err)
			}
			imports := maps.Clone(asDrawn)
			test.change(imports)
			var want []string
			if test.problem != "" {
				want = []string{test.problem}
			}
			if got := pic.compare(imports); !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

// TestPictureRefused lists what is not a picture.
func TestPictureRefused(t *testing.T) {
	for name, doc := range map[string]string{
		"no block":      "text\n",
		"not closed":    "```imports\na: b\n",
		"no colon":      "```imports\na b\n```\n",
		"same line":     "```imports\na:\na:\n```\n",
		"two blocks":    "```imports\na:\n```\n```imports\nb:\n```\n",
		"same import":   "```imports\na: b b\nb:\n```\n",
		"no such room":  "```imports\na: b\n```\n",
		"own import":    "```imports\na: a\n```\n",
		"two on a line": "```imports\na b: c\n```\n",
	} {
		if pic, err := parsePicture(doc); err == nil {
			t.Errorf("%s: read as %v", name, pic)
		}
	}
}

// TestExternalRules shows what the table of foreign packages allows.
func TestExternalRules(t *testing.T) {
	tests := []struct {
		dir    string
		test   bool
		imp    string
		wanted bool
	}{
		{"internal/mmap", false, "golang.org/x/sys/unix", true},
		{"internal/segment", false, "golang.org/x/sys/unix", false},
		{"internal/segment", true, "golang.org/x/sys/unix", true},
		{"cmd/pocketmq", false, "github.com/spf13/cobra", true},
		{".", false, "github.com/spf13/cobra", false},
		{"mq", false, "github.com/cespare/xxhash/v2", true},
		{"bench", false, "github.com/cespare/xxhash/v2", false},
		{"mq", false, "github.com/stretchr/testify/require", false},
		{"mq", true, "github.com/stretchr/testify/require", true},
		{"mq", true, "example.org/other", false},
		{"mq", false, "C", false},
		{"mq", false, "encoding/json", true},
		{"mq", false, modulePath + "/protocol", true},
	}
	for _, test := range tests {
		if problem := checkExternal(test.dir, test.test, test.imp); (problem == "") != test.wanted {
			t.Errorf("%s (test: %t) imports %s: %q", test.dir, test.test, test.imp, problem)
		}
	}
}

// picture is what docs/design.md draws: a line for each package, or for each pattern of packages, with the
// packages of this module that it imports.
type picture map[string][]string

// parsePicture reads the one fenced block of a page that starts with ```imports. A line of it is
// "package: import import …", paths relative to the module, "." the root; # starts a comment.
func parsePicture(page string) (picture, error) {
	block, err := picturePart(page)
	if err != nil {
		return nil, err
	}
	pic := make(picture)
	for _, line := range block {
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		name, list, found := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if !found || len(strings.Fields(name)) != 1 {
			return nil, fmt.Errorf("not a line of the form \"package: import import\": %q", line)
		}
		if _, double := pic[name]; double {
			return nil, fmt.Errorf("two lines for %s", name)
		}
		if _, err := path.Match(name, ""); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		pic[name] = strings.Fields(list)
	}
	return pic, pic.check()
}

// picturePart returns the lines between the fences.
func picturePart(page string) ([]string, error) {
	lines := strings.Split(strings.ReplaceAll(page, "\r\n", "\n"), "\n")
	start := slices.Index(lines, "```imports")
	if start < 0 {
		return nil, errors.New("no block that starts with ```imports")
	}
	rest := lines[start+1:]
	end := slices.Index(rest, "```")
	if end < 0 {
		return nil, errors.New("the block ```imports does not end")
	}
	if slices.Contains(rest[end:], "```imports") {
		return nil, errors.New("two blocks that start with ```imports")
	}
	return rest[:end], nil
}

// check finds what cannot be meant.
func (p picture) check() error {
	for name, list := range p {
		for i, imp := range list {
			switch {
			case imp == name:
				return fmt.Errorf("%s imports itself", name)
			case slices.Contains(list[:i], imp):
				return fmt.Errorf("%s imports %s twice", name, imp)
			case p.lineOf(imp) == "":
				return fmt.Errorf("%s imports %s, which has no line", name, imp)
			}
		}
	}
	return nil
}

// lineOf returns the name of the line that speaks for a package: its own, else the longest pattern that matches it.
func (p picture) lineOf(pkg string) string {
	if _, ok := p[pkg]; ok {
		return pkg
	}
	best := ""
	for name := range p {
		if ok, _ := path.Match(name, pkg); ok && (len(name) > len(best) || len(name) == len(best) && name < best) {
			best = name
		}
	}
	return best
}

// compare returns, sorted, what differs between the picture and the packages with their imports.
func (p picture) compare(packages map[string][]string) []string {
	var problems []string
	used := make(map[string]map[string]bool) // line -> imports that one of its packages has
	for pkg, imports := range packages {
		line := p.lineOf(pkg)
		if line == "" {
			problems = append(problems, fmt.Sprintf("package %s has no line in the picture", pkg))
			continue
		}
		if used[line] == nil {
			used[line] = make(map[string]bool)
		}
		for _, imp := range imports {
			if !slices.Contains(p[line], imp) {
				problems = append(problems, fmt.Sprintf("%s imports %s, which the picture does not allow", pkg, imp))
			}
			used[line][imp] = true
		}
	}
	for line, imports := range p {
		if used[line] == nil {
			problems = append(problems, fmt.Sprintf("the picture has a line %s, but there is no such package", line))
			continue
		}
		for _, imp := range imports {
			if !used[line][imp] {
				problems = append(problems, fmt.Sprintf("the picture lets %s import %s, which it no longer does", line, imp))
			}
		}
	}
	slices.Sort(problems)
	return problems
}

// checkExternal says what is wrong with an import of something that is neither ours nor the standard library's.
func checkExternal(dir string, test bool, imp string) string {
	if imp == "C" {
		return "imports C: the library needs no C compiler"
	}
	first, _, _ := strings.Cut(imp, "/")
	if !strings.Contains(first, ".") || within(imp, modulePath) {
		return ""
	}
	for _, external := range externals {
		if !within(imp, external.path) {
			continue
		}
		program := within(dir, "cmd") || within(dir, "examples") || within(dir, "bench")
		allowed := func(name string) bool { return name == dir || name == anyPackage && !program }
		if test || slices.ContainsFunc(external.allowed, allowed) {
			return ""
		}
		return fmt.Sprintf("%s may not import %s", dir, imp)
	}
	return fmt.Sprintf("imports %s, which is not a dependency of this module", imp)
}

// within reports whether a slash-separated path is dir or lies below it.
func within(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, dir+"/")
}

// sourcePackage is one directory of Go files, whatever system they are for.
type sourcePackage struct {
	files []sourceFile
}

type sourceFile struct {
	path        string // relative to the module, with slashes
	test        bool
	imports     []string
	doc         string // package comment
	constrained bool   // has a //go:build line
}

// internalImports returns, sorted, the packages of this module that the package imports outside tests.
func (p *sourcePackage) internalImports() []string {
	seen := make(map[string]bool)
	for _, file := range p.files {
		for _, imp := range file.imports {
			if file.test || !within(imp, modulePath) {
				continue
			}
			if imp == modulePath {
				seen["."] = true
			} else {
				seen[strings.TrimPrefix(imp, modulePath+"/")] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// modulePackages reads all packages of the module by their paths relative to it. It reads files rather than asking
// the go command, which shows only what is built for one system.
func modulePackages(t *testing.T) map[string]*sourcePackage {
	t.Helper()
	packages := make(map[string]*sourcePackage)
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if name != "." && outsideModule(name) {
				return filepath.SkipDir
			}
			return nil
		case filepath.Ext(name) != ".go" || strings.HasPrefix(entry.Name(), "_") || strings.HasPrefix(entry.Name(), "."):
			return nil
		}
		file, err := parseSource(name)
		if err != nil {
			return err
		}
		dir := path.Dir(file.path)
		if packages[dir] == nil {
			packages[dir] = &sourcePackage{}
		}
		packages[dir].files = append(packages[dir].files, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

// outsideModule reports whether a directory holds no packages of this module, by the go command's rules.
func outsideModule(dir string) bool {
	base := filepath.Base(dir)
	if base == "testdata" || base == "vendor" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return true
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil // a module of its own
}

func parseSource(name string) (sourceFile, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return sourceFile{}, err
	}
	file := sourceFile{path: filepath.ToSlash(name), test: strings.HasSuffix(name, "_test.go"), doc: parsed.Doc.Text()}
	for _, spec := range parsed.Imports {
		file.imports = append(file.imports, strings.Trim(spec.Path.Value, "\"`"))
	}
	file.constrained = slices.ContainsFunc(parsed.Comments, func(group *ast.CommentGroup) bool {
		return group.Pos() < parsed.Package && slices.ContainsFunc(group.List, func(comment *ast.Comment) bool {
			return constraint.IsGoBuild(comment.Text) || constraint.IsPlusBuild(comment.Text)
		})
	})
	return file, nil
}

// buildDifference says why a file is not built everywhere.
func buildDifference(t *testing.T, file sourceFile) string {
	t.Helper()
	if file.constrained {
		return "has a build constraint, which only " + systemPackage + " may"
	}
	// Built for a system and a processor that do not exist, a file is left out exactly if its name ends in one that does.
	nowhere := build.Context{GOOS: "nowhere", GOARCH: "nothing", Compiler: "gc"}
	everywhere, err := nowhere.MatchFile(path.Dir(file.path), path.Base(file.path))
	if err != nil {
		t.Fatal(err)
	}
	if !everywhere {
		return "is for one system or processor, by its name, which only files of " + systemPackage + " may be"
	}
	return ""
}

// projectFiles returns the files that are or would be committed, or all files where there is no git to ask.
func projectFiles(t *testing.T) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err == nil && len(out) > 0 {
		names := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		return slices.DeleteFunc(names, func(name string) bool {
			info, err := os.Lstat(name)
			return err == nil && !info.Mode().IsRegular()
		})
	}
	var names []string
	err = filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == ".git" {
			return filepath.SkipDir
		}
		if entry.Type().IsRegular() {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
