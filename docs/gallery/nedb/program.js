// NeDB: `default`; a transaction is an insert of an array, which is there as a whole or not at all, and is appended by one
// call. `compact` compacts the data file after each of them.
'use strict'
const path = require('path')
const Datastore = require('@seald-io/nedb')
const { COUNT, ROWS, counted, key, main, promise, value } = require('transactions')

const FILE = 'rows.db'

async function opened (directory) {
  const db = new Datastore({ filename: path.join(directory, FILE) })
  await db.loadDatabaseAsync()
  return db
}

async function make () {
  await opened('')
}

async function write (setting) {
  const db = await opened('')
  for (let transaction = 1; transaction <= COUNT; transaction++) {
    const rows = Array.from({ length: ROWS }, (_, row) => ({ _id: key(transaction, row), value: value(transaction) }))
    await db.insertAsync(rows)
    if (setting === 'compact') await db.compactDatafileAsync()
    promise(transaction)
  }
}

async function find (directory) {
  const db = await opened(directory)
  const rows = await db.findAsync({})
  await db.insertAsync({ _id: 'more' })
  return counted(Object.fromEntries(rows.map((row) => [row._id, row.value])))
}

main({ make, write, find, packageName: '@seald-io/nedb' })
