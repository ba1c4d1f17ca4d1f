package golden_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/pocketmq/pocketmq/internal/golden"
)

// TestCases unpacks every archive and compares it with the manifest's list of
// files: names, sizes, contents and modification times.
func TestCases(t *testing.T) {
	names, err := golden.Cases()
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != 24 {
		t.Errorf("%d cases, 24 were recorded: %q", len(names), names)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := golden.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			if c.Case != name {
				t.Errorf("the manifest is that of %s", c.Case)
			}
			compareArchive(t, c, golden.StoreArchive, c.Files)
			if c.FilesAfter != nil {
				compareArchive(t, c, golden.AfterArchive, c.FilesAfter)
			}
			for _, g := range c.Groups {
				if g.Store != "" && g.Files != nil { // not every group lists them
					compareArchive(t, c, g.Store, g.Files)
				}
			}
			for i, r := range c.Reads {
				if r.Op == "queryMessage" {
					continue // has no type yet
				}
				if _, err := r.Answer(); err != nil {
					t.Errorf("read %d: %v", i, err)
				}
			}
		})
	}
}

func compareArchive(t *testing.T, c *golden.Case, archive string, want []golden.File) {
	t.Helper()
	dir := t.TempDir()
	if err := c.Unpack(archive, dir); err != nil {
		t.Fatal(err)
	}
	files, err := golden.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(want) || len(want) == 0 {
		t.Errorf("%s: %d files, the manifest lists %d", archive, len(files), len(want))
	}
	for _, f := range want {
		data, ok := files[f.Path]
		sum := sha256.Sum256(data)
		if !ok || int64(len(data)) != f.Size || hex.EncodeToString(sum[:]) != f.SHA256 {
			t.Errorf("%s: %s is not what the manifest says", archive, f.Path)
			continue
		}
		info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(f.Path)))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.ModTime().UnixMilli(); got != f.MtimeMs {
			t.Errorf("%s: %s was modified at %d, not %d", archive, f.Path, got, f.MtimeMs)
		}
	}
}

// TestDifferences wants the table complete and free of doubles.
func TestDifferences(t *testing.T) {
	seen := make(map[string]bool)
	for _, d := range golden.Differences {
		if d.ID == "" || d.RocketMQ == "" || d.PocketMQ == "" || d.Why == "" {
			t.Errorf("an entry is not filled in: %+v", d)
		}
		if seen[d.ID] {
			t.Errorf("two entries %s", d.ID)
		}
		seen[d.ID] = true
	}
}
