// What transactions.py is to the programs in Python: the same transactions, the same breaches.
'use strict'
const fs = require('fs')
const path = require('path')
const readline = require('readline')

const COUNT = 3
const ROWS = 8

const key = (transaction, row) => `k${transaction}-${row}`
const value = (transaction) => String(transaction).repeat(100)

// Says that a transaction is committed.
const promise = (transaction) => fs.writeSync(1, `${transaction}\n`)

// Returns how many rows there are of each transaction, of an object or Map of values by key.
function counted (rows) {
  const found = new Array(COUNT).fill(0)
  for (const [name, text] of Object.entries(rows)) {
    const number = Number(name[1])
    if (text !== value(number)) throw Object.assign(new Error(`${name} is not what was stored`), { isWrong: true })
    found[number - 1]++
  }
  return found
}

function breaches (found, promised) {
  const part = found.flatMap((rows, index) => rows !== 0 && rows !== ROWS
    ? [`part: of transaction ${index + 1} there are ${rows} rows of ${ROWS}`]
    : [])
  const lost = found.flatMap((rows, index) => rows === 0 && index < promised
    ? [`lost: transaction ${index + 1} was promised`]
    : [])
  return [...part, ...lost]
}

async function serve (find) {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { directory, acknowledged } = JSON.parse(line)
    let broken
    try {
      broken = breaches(await find(directory), Number(acknowledged.at(-1) || 0))
    } catch (error) {
      broken = [`${error.isWrong ? 'wrong' : 'unusable'}: ${error.message.split('\n')[0].replaceAll(directory, '.')}`]
    }
    fs.writeSync(1, JSON.stringify({ broken }) + '\n')
  }
}

// Returns the name and version of a package, found where it is loaded from.
function version (name) {
  const folder = process.env.NODE_PATH.split(path.delimiter).map((base) => path.join(base, name)).find(fs.existsSync)
  return `${name} ${JSON.parse(fs.readFileSync(path.join(folder, 'package.json'))).version}, Node ${process.version}`
}

// Runs the command line. It ends without exit handlers.
async function main ({ make, write, find, packageName }) {
  const [what, setting, ...rest] = process.argv.slice(2)
  if (what === 'check' && setting === undefined) await serve(find)
  else if (what === 'version' && setting === undefined) console.log(version(packageName))
  else if (what === 'make' && setting && !rest.length) await make(setting)
  else if (what === 'write' && setting && !rest.length) await write(setting)
  else throw new Error(`expected write, make, check or version, found ${process.argv.slice(2)}`)
  process.exit(0)
}

module.exports = { COUNT, ROWS, key, value, promise, counted, main }
