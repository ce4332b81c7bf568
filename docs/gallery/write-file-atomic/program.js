// write-file-atomic: `fsync`, as it is by default, or `nofsync`, its option fsync: false; all rows are one file of JSON.
'use strict'
const fs = require('fs')
const path = require('path')
const { COUNT, ROWS, counted, key, main, promise, value } = require('transactions')
const writeFileAtomic = require('write-file-atomic')

const FILE = 'rows.json'

const make = () => writeFileAtomic(FILE, '{}')

async function write (setting) {
  const rows = {}
  for (let transaction = 1; transaction <= COUNT; transaction++) {
    for (let row = 0; row < ROWS; row++) rows[key(transaction, row)] = value(transaction)
    await writeFileAtomic(FILE, JSON.stringify(rows), { fsync: setting === 'fsync' })
    promise(transaction)
  }
}

async function find (directory) {
  const file = path.join(directory, FILE)
  const found = counted(JSON.parse(fs.readFileSync(file, 'utf8')))
  await writeFileAtomic(file, '{}')
  return found
}

main({ make, write, find, packageName: 'write-file-atomic' })
