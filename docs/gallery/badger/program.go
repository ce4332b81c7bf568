// badger: `sync`, its option SyncWrites, or `nosync`. Its log is written through a map.
package main

import (
	"bytes"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"

	"gallery/transactions"
)

const (
	name  = "db"
	small = 1 << 20
)

func opened(path string, isSynced bool) (*badger.DB, error) {
	options := badger.DefaultOptions(path).WithLogger(nil).WithMetricsEnabled(false).WithSyncWrites(isSynced)
	options = options.WithMemTableSize(small).WithValueLogFileSize(small).WithBlockCacheSize(small)
	return badger.Open(options.WithNumMemtables(2).WithNumCompactors(2).WithValueThreshold(1 << 10))
}

func create(setting string) error {
	db, err := opened(name, true)
	if err != nil {
		return err
	}
	return db.Close()
}

func write(setting string) error {
	db, err := opened(name, setting == "sync")
	if err != nil {
		return err
	}
	for transaction := 1; transaction <= transactions.Count; transaction++ {
		err := db.Update(func(tx *badger.Txn) error {
			for row := 0; row < transactions.Rows; row++ {
				if err := tx.Set(transactions.Key(transaction, row), transactions.Value(transaction)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		transactions.Promise(transaction)
	}
	return nil // without Close, which syncs what is not synced
}

// find opens it as the next user would, and writes to it.
func find(directory string) ([]int, error) {
	db, err := opened(filepath.Join(directory, name), true)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	found := make([]int, transactions.Count)
	err = db.View(func(tx *badger.Txn) error {
		for index := range found {
			for row := 0; row < transactions.Rows; row++ {
				item, err := tx.Get(transactions.Key(index+1, row))
				if err == badger.ErrKeyNotFound {
					continue
				} else if err != nil {
					return err
				}
				value, err := item.ValueCopy(nil)
				if err != nil {
					return err
				} else if bytes.Equal(value, transactions.Value(index+1)) {
					found[index]++
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, db.Update(func(tx *badger.Txn) error { return tx.Set([]byte("more"), nil) })
}

func main() {
	program := transactions.Program{Make: create, Write: write, Find: find, Module: "github.com/dgraph-io/badger/v4"}
	transactions.Main(program)
}
