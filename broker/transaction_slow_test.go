//go:build slow

package broker

import "testing"

// TestManyTransactionsAgainstModel is TestTransactionsAgainstModel, longer.
func TestManyTransactionsAgainstModel(t *testing.T) { testTransactionModels(t, 100, 140) }
