// etcd's write-ahead log: `sync`, or `nosync`, which is its option SetUnsafeNoFsync. A transaction is an entry.
package main

import (
	"bytes"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"

	"gallery/transactions"
)

const name = "wal"

func entry(term, index uint64, data []byte) *raftpb.Entry {
	return &raftpb.Entry{Term: &term, Index: &index, Data: data}
}

func state(term, commit uint64) *raftpb.HardState {
	return &raftpb.HardState{Term: &term, Commit: &commit}
}

func create(string) error {
	wal.SegmentSizeBytes = 64 << 10 // 64 MB by default, of which every check would have its copy
	log, err := wal.Create(zap.NewNop(), name, nil)
	if err != nil {
		return err
	}
	return log.Close()
}

func write(setting string) error {
	if err := create(setting); err != nil {
		return err
	}
	log, err := wal.Open(zap.NewNop(), name, &walpb.Snapshot{})
	if err != nil {
		return err
	}
	if _, _, _, err := log.ReadAll(); err != nil {
		return err
	}
	if setting == "nosync" {
		log.SetUnsafeNoFsync()
	}
	for transaction := 1; transaction <= transactions.Count; transaction++ {
		index := uint64(transaction)
		entries := []*raftpb.Entry{entry(1, index, transactions.Value(transaction))}
		if err := log.Save(state(1, index), entries); err != nil {
			return err
		}
		transactions.Promise(transaction)
	}
	return nil
}

// find opens it as etcd does when it starts: an unfinished write at the end is repaired once.
func find(directory string) ([]int, error) {
	wal.SegmentSizeBytes = 64 << 10
	path := filepath.Join(directory, name)
	found := make([]int, transactions.Count)
	if !wal.Exist(path) {
		log, err := wal.Create(zap.NewNop(), path, nil) // as etcd does for a new member
		if err != nil {
			return nil, err
		}
		return found, log.Close()
	}
	log, entries, err := read(path)
	if err != nil && wal.Repair(zap.NewNop(), path) {
		log, entries, err = read(path)
	}
	if err != nil {
		return nil, err
	}
	defer log.Close()
	for _, entry := range entries {
		for index := range found {
			if bytes.Equal(entry.Data, transactions.Value(index+1)) {
				found[index] = transactions.Rows
			}
		}
	}
	next := uint64(len(entries) + 1)
	return found, log.Save(state(2, next), []*raftpb.Entry{entry(2, next, nil)})
}

func read(path string) (*wal.WAL, []*raftpb.Entry, error) {
	log, err := wal.Open(zap.NewNop(), path, &walpb.Snapshot{})
	if err != nil {
		return nil, nil, err
	}
	_, _, entries, err := log.ReadAll()
	if err != nil {
		log.Close()
	}
	return log, entries, err
}

func main() {
	transactions.Main(transactions.Program{Make: create, Write: write, Find: find, Module: "go.etcd.io/etcd/server/v3"})
}
