// buntdb: a SyncPolicy, `always` or `second`, or `large`, whose one transaction is of a size that kill.sh can meet.
package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/tidwall/buntdb"

	"gallery/transactions"
)

const file = "db"

// A value is this often the value of its transaction, so that a transaction has more than a page.
const repeats, largeRepeats = 10, 80_000

func value(transaction, times int) string {
	return strings.Repeat(string(transactions.Value(transaction)), times)
}

func create(string) error {
	db, err := buntdb.Open(file)
	if err != nil {
		return err
	}
	return db.Close()
}

func write(setting string) error {
	db, err := buntdb.Open(file)
	if err != nil {
		return err
	}
	config := buntdb.Config{SyncPolicy: buntdb.EverySecond}
	if setting == "always" {
		config.SyncPolicy = buntdb.Always
	}
	if err := db.SetConfig(config); err != nil {
		return err
	}
	count, times := transactions.Count, repeats
	if setting == "large" {
		count, times = 1, largeRepeats
	}
	for transaction := 1; transaction <= count; transaction++ {
		err := db.Update(func(tx *buntdb.Tx) (err error) {
			for row := 0; err == nil && row < transactions.Rows; row++ {
				_, _, err = tx.Set(string(transactions.Key(transaction, row)), value(transaction, times), nil)
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

// find opens it as the next user would, and writes to it.
func find(directory string) ([]int, error) {
	found := make([]int, transactions.Count)
	db, err := buntdb.Open(filepath.Join(directory, file))
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return found, db.Update(func(tx *buntdb.Tx) error {
		for index := range found {
			for row := 0; row < transactions.Rows; row++ {
				stored, err := tx.Get(string(transactions.Key(index+1, row)))
				if err == buntdb.ErrNotFound {
					continue
				}
				if err != nil {
					return err
				}
				if stored != value(index+1, repeats) && stored != value(index+1, largeRepeats) {
					return fmt.Errorf("k%d-%d is not what was stored", index+1, row)
				}
				found[index]++
			}
		}
		_, _, err := tx.Set("more", "", nil)
		return err
	})
}

func main() {
	transactions.Main(transactions.Program{Make: create, Write: write, Find: find, Module: "github.com/tidwall/buntdb"})
}
