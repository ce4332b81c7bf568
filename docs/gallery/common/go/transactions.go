// Package transactions is what transactions.py is to the programs in Python: the same transactions, the same breaches.
package transactions

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
)

const (
	Count      = 3
	Rows       = 8
	valueBytes = 100
)

// Program commits transactions to a database in the working directory, and counts the rows of each in another one.
type Program struct {
	Make  func(setting string) error
	Write func(setting string) error
	Find  func(directory string) ([]int, error)

	Module string // whose version is the program's, as go.mod names it
}

// Key returns the key of a row.
func Key(transaction, row int) []byte { return []byte(fmt.Sprintf("k%d-%d", transaction, row)) }

// Value returns the value of all rows of a transaction.
func Value(transaction int) []byte { return bytes.Repeat([]byte{byte(transaction)}, valueBytes) }

// Promise says that a transaction is committed.
func Promise(transaction int) { os.Stdout.WriteString(strconv.Itoa(transaction) + "\n") }

// Main runs the command line.
func Main(program Program) {
	var err error
	switch {
	case len(os.Args) == 2 && os.Args[1] == "check":
		err = serve(program)
	case len(os.Args) == 2 && os.Args[1] == "version":
		fmt.Println(version(program.Module))
	case len(os.Args) == 3 && os.Args[1] == "make" && program.Make != nil:
		err = program.Make(os.Args[2])
	case len(os.Args) == 3 && os.Args[1] == "write":
		err = program.Write(os.Args[2])
	default:
		err = fmt.Errorf("expected write, make, check or version, found %v", os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, each := range info.Deps {
		if each.Path == module {
			return fmt.Sprintf("%s %s, %s", each.Path, each.Version, info.GoVersion)
		}
	}
	return module + " is not in this program"
}

func serve(program Program) error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var question struct {
			Directory    string
			Acknowledged []string
		}
		if err := json.Unmarshal(lines.Bytes(), &question); err != nil {
			return err
		}
		promised := 0
		if count := len(question.Acknowledged); count > 0 {
			var err error
			if promised, err = strconv.Atoi(question.Acknowledged[count-1]); err != nil {
				return err
			}
		}
		answer, err := json.Marshal(map[string][]string{"broken": broken(program, question.Directory, promised)})
		if err != nil {
			return err
		}
		fmt.Println(string(answer))
	}
	return lines.Err()
}

func broken(program Program, directory string, promised int) (found []string) {
	found = []string{}
	defer func() {
		if reason := recover(); reason != nil {
			found = []string{fmt.Sprintf("unusable: panic: %v", reason)}
		}
	}()
	rows, err := program.Find(directory)
	if err != nil {
		return []string{"unusable: " + err.Error()}
	}
	for index, count := range rows {
		if count != 0 && count != Rows {
			found = append(found, fmt.Sprintf("part: of transaction %d there are %d rows of %d", index+1, count, Rows))
		}
	}
	for index, count := range rows {
		if count == 0 && index < promised {
			found = append(found, fmt.Sprintf("lost: transaction %d was promised", index+1))
		}
	}
	return found
}
