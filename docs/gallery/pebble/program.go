// pebble: `sync`, or `nosync`, which are its write options.
package main

import (
	"bytes"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"

	"gallery/transactions"
)

const name = "db"

type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(format string, arguments ...any) {
	panic("fatal: " + format)
}

func opened(path string) (*pebble.DB, error) {
	return pebble.Open(path, &pebble.Options{Logger: silent{}})
}

func create(string) error {
	db, err := opened(name)
	if err != nil {
		return err
	}
	return db.Close()
}

func write(setting string) error {
	db, err := opened(name)
	if err != nil {
		return err
	}
	options := pebble.NoSync
	if setting == "sync" {
		options = pebble.Sync
	}
	for transaction := 1; transaction <= transactions.Count; transaction++ {
		batch := db.NewBatch()
		for row := 0; row < transactions.Rows; row++ {
			if err := batch.Set(transactions.Key(transaction, row), transactions.Value(transaction), nil); err != nil {
				return err
			}
		}
		if err := batch.Commit(options); err != nil {
			return err
		}
		transactions.Promise(transaction)
	}
	return db.Close() // without it, what is not synced would not even be written
}

// find opens it as the next user would, and writes to it.
func find(directory string) ([]int, error) {
	db, err := opened(filepath.Join(directory, name))
	if err != nil {
		return nil, err
	}
	defer db.Close()
	found := make([]int, transactions.Count)
	for index := range found {
		for row := 0; row < transactions.Rows; row++ {
			value, closer, err := db.Get(transactions.Key(index+1, row))
			if err == pebble.ErrNotFound {
				continue
			} else if err != nil {
				return nil, err
			}
			if bytes.Equal(value, transactions.Value(index+1)) {
				found[index]++
			}
			closer.Close()
		}
	}
	if err := db.CheckLevels(nil); err != nil {
		return nil, err
	}
	return found, db.Set([]byte("more"), nil, pebble.Sync)
}

func main() {
	program := transactions.Program{Make: create, Write: write, Find: find, Module: "github.com/cockroachdb/pebble/v2"}
	transactions.Main(program)
}
