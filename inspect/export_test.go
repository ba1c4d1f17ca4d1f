package inspect

import "context"

// VerifyPlain is Verify that reads one record at a time, where it lies, and looks at
// each index entry for itself.
func VerifyPlain(ctx context.Context, dir string, found func(Finding)) (Summary, error) {
	return VerifyWith(ctx, dir, VerifyConfig{Found: found, plain: true})
}
