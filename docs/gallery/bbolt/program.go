// bbolt: `sync`, or `nosync`, which is its option NoSync.
package main

import (
	"bytes"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"gallery/transactions"
)

const file = "db"

var bucket = []byte("rows")

func opened(path string) (*bolt.DB, error) { return bolt.Open(path, 0o600, nil) }

func create(string) error {
	db, err := opened(file)
	if err != nil {
		return err
	}
	return db.Close()
}

func write(setting string) error {
	db, err := opened(file)
	if err != nil {
		return err
	}
	db.NoSync = setting == "nosync"
	for transaction := 1; transaction <= transactions.Count; transaction++ {
		err := db.Update(func(tx *bolt.Tx) error {
			rows, err := tx.CreateBucketIfNotExists(bucket)
			for row := 0; err == nil && row < transactions.Rows; row++ {
				err = rows.Put(transactions.Key(transaction, row), transactions.Value(transaction))
			}
			return err
		})
		if err != nil {
			return err
		}
		transactions.Promise(transaction)
	}
	return db.Close()
}

// find opens it as the next user would, has it look for damage, and writes to it.
func find(directory string) ([]int, error) {
	found := make([]int, transactions.Count)
	path := filepath.Join(directory, file)
	if _, err := os.Stat(path); os.IsNotExist(err) {
		return found, nil
	}
	db, err := opened(path)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	err = db.View(func(tx *bolt.Tx) error {
		var damage error
		for each := range tx.Check() {
			damage = each
		}
		rows := tx.Bucket(bucket)
		for index := range found {
			for row := 0; rows != nil && row < transactions.Rows; row++ {
				if bytes.Equal(rows.Get(transactions.Key(index+1, row)), transactions.Value(index+1)) {
					found[index]++
				}
			}
		}
		return damage
	})
	if err != nil {
		return nil, err
	}
	return found, db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists([]byte("more"))
		return err
	})
}

func main() {
	transactions.Main(transactions.Program{Make: create, Write: write, Find: find, Module: "go.etcd.io/bbolt"})
}
