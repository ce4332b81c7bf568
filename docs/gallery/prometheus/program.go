// Prometheus's TSDB: a transaction is a Commit of a sample for each of its series.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"gallery/transactions"
)

const (
	directory      = "db"
	secondsBetween = 15
	label          = "row"
)

func opened(path string) (*tsdb.DB, error) {
	db, err := tsdb.Open(path, slog.New(slog.NewTextHandler(io.Discard, nil)), nil, tsdb.DefaultOptions(), nil)
	if err == nil {
		db.DisableCompactions()
	}
	return db, err
}

func create(string) error {
	db, err := opened(directory)
	if err != nil {
		return err
	}
	return db.Close()
}

// commit adds samples, whose value is the number of their transaction, by one Commit.
func commit(db *tsdb.DB, transaction, rows int) error {
	appender := db.Appender(context.Background())
	for row := 0; row < rows; row++ {
		series := labels.FromStrings(label, string(transactions.Key(transaction, row)))
		milliseconds := int64(transaction * secondsBetween * 1000)
		if _, err := appender.Append(0, series, milliseconds, float64(transaction)); err != nil {
			return err
		}
	}
	return appender.Commit()
}

func write(string) error {
	db, err := opened(directory)
	if err != nil {
		return err
	}
	for transaction := 1; transaction <= transactions.Count; transaction++ {
		if err := commit(db, transaction, transactions.Rows); err != nil {
			return err
		}
		transactions.Promise(transaction)
	}
	return db.Close()
}

// find opens it as the next user would, which replays its log, counts the samples, and commits one more.
func find(place string) ([]int, error) {
	found := make([]int, transactions.Count)
	db, err := opened(filepath.Join(place, directory))
	if err != nil {
		return nil, err
	}
	defer db.Close()
	last := int64((transactions.Count + 1) * secondsBetween * 1000)
	querier, err := db.Querier(0, last)
	if err != nil {
		return nil, err
	}
	all := labels.MustNewMatcher(labels.MatchRegexp, label, ".+")
	set := querier.Select(context.Background(), false, nil, all)
	for set.Next() {
		samples := set.At().Iterator(nil)
		for samples.Next() == chunkenc.ValFloat {
			_, value := samples.At()
			name := set.At().Labels().Get(label)
			if transaction := int(name[1] - '0'); value != float64(transaction) {
				return nil, fmt.Errorf("%s is %v", name, value)
			}
			found[int(value)-1]++
		}
		if err := samples.Err(); err != nil {
			return nil, err
		}
	}
	if err := set.Err(); err != nil {
		return nil, err
	}
	querier.Close()
	return found, commit(db, transactions.Count+1, 1)
}

func main() {
	transactions.Main(transactions.Program{Make: create, Write: write, Find: find, Module: "github.com/prometheus/prometheus"})
}
