package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
)

// database is a file with the orders that were paid. Each change replaces it at
// once: after a power failure it has the change or not.
type database struct {
	path string
	mu   sync.Mutex
}

func (d *database) read() (orders []string, err error) {
	text, err := os.ReadFile(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return orders, json.Unmarshal(text, &orders)
}

func (d *database) has(order string) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	orders, err := d.read()
	return slices.Contains(orders, order), err
}

// add is the local transaction.
func (d *database) add(order string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	orders, err := d.read()
	if err != nil {
		return err
	}
	text, err := json.Marshal(append(orders, order))
	if err != nil {
		return err
	}
	f, err := os.Create(d.path + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), d.path)
}
