// lowdb: `json`, its preset for a JSON file, which is written anew by each write().
'use strict'
const path = require('path')
const { COUNT, ROWS, counted, key, main, promise, value } = require('transactions')

const FILE = 'rows.json'

async function opened (directory) {
  const folder = process.env.NODE_PATH.split(path.delimiter).at(-1) // an ES module, which NODE_PATH does not find
  const { JSONFilePreset } = await import(path.join(folder, 'lowdb', 'lib', 'presets', 'node.js'))
  return JSONFilePreset(path.join(directory, FILE), { rows: {} })
}

async function make () {
  const db = await opened('')
  await db.write()
}

async function write () {
  const db = await opened('')
  for (let transaction = 1; transaction <= COUNT; transaction++) {
    for (let row = 0; row < ROWS; row++) db.data.rows[key(transaction, row)] = value(transaction)
    await db.write()
    promise(transaction)
  }
}

async function find (directory) {
  const db = await opened(directory)
  const found = counted(db.data.rows)
  await db.update((data) => { data.more = true })
  return found
}

main({ make, write, find, packageName: 'lowdb' })
