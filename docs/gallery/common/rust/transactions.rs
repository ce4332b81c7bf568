//! What transactions.py is to the programs in Python: the same transactions, the same breaches.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{stdin, stdout, BufRead, Write};
use std::panic::catch_unwind;
use std::path::Path;

pub const TRANSACTIONS: usize = 3;
pub const ROWS: usize = 8;
const VALUE_BYTES: usize = 100;

pub type Done<T> = Result<T, Box<dyn Error>>;

/// Commits transactions to a database in the working directory, and counts the rows of each in another one.
pub struct Program {
    /// Makes it empty, under a setting.
    pub make: fn(&str) -> Done<()>,
    /// Commits under a setting, and calls `promise` after each transaction.
    pub write: fn(&str) -> Done<()>,
    /// Opens it as the next user would, returns the rows of each transaction, and writes one more.
    pub find: fn(&Path) -> Done<[usize; TRANSACTIONS]>,
    /// The crate, and the text of `Cargo.lock`, which has its version.
    pub package: &'static str,
    pub lock: &'static str,
}

/// Returns the rows of a transaction, which is a number from 1.
pub fn rows(transaction: usize) -> BTreeMap<String, Vec<u8>> {
    (0..ROWS).map(|row| (format!("k{transaction}-{row}"), vec![transaction as u8; VALUE_BYTES])).collect()
}

/// Returns how many rows of each transaction a function finds, which returns the value of a key.
pub fn count(get: impl Fn(&str) -> Done<Option<Vec<u8>>>) -> Done<[usize; TRANSACTIONS]> {
    let mut found = [0; TRANSACTIONS];
    for transaction in 1..=TRANSACTIONS {
        for (key, value) in rows(transaction) {
            found[transaction - 1] += usize::from(get(&key)? == Some(value));
        }
    }
    Ok(found)
}

/// Says that a transaction is committed.
pub fn promise(transaction: usize) {
    println!("{transaction}");
}

/// Runs the command line.
pub fn main(program: Program) -> Done<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["check"] => serve(&program),
        ["make", setting] => (program.make)(setting),
        ["write", setting] => (program.write)(setting),
        ["version"] => {
            println!("{} {}", program.package, version(&program).ok_or("it is not in Cargo.lock")?);
            Ok(())
        }
        _ => Err(format!("expected write, make, check or version, found {words:?}").into()),
    }
}

fn version(program: &Program) -> Option<&str> {
    let name = format!("name = \"{}\"", program.package);
    let mut lines = program.lock.lines().skip_while(|line| *line != name);
    lines.nth(1)?.split('"').nth(1)
}

fn serve(program: &Program) -> Done<()> {
    std::panic::set_hook(Box::new(|_| ()));
    for line in stdin().lock().lines() {
        let question: serde_json::Value = serde_json::from_str(&line?)?;
        let directory = question["directory"].as_str().ok_or("expected a directory")?;
        let promises = question["acknowledged"].as_array().ok_or("expected promises")?;
        let promised = match promises.last() {
            Some(last) => last.as_str().ok_or("expected words")?.parse()?,
            None => 0,
        };
        println!("{}", serde_json::json!({ "broken": broken(program, Path::new(directory), promised) }));
        stdout().flush()?;
    }
    Ok(())
}

fn broken(program: &Program, directory: &Path, promised: usize) -> Vec<String> {
    let found = match catch_unwind(|| (program.find)(directory).map_err(|error| error.to_string())) {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => return vec![format!("unusable: {error}")],
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("");
            return vec![format!("unusable: panic: {text}")];
        }
    };
    let part = (1..=TRANSACTIONS).filter(|number| !matches!(found[number - 1], 0 | ROWS));
    let part = part.map(|number| format!("part: of transaction {number} there are {} rows of {ROWS}", found[number - 1]));
    let lost = (1..=promised).filter(|number| found[number - 1] == 0);
    part.chain(lost.map(|number| format!("lost: transaction {number} was promised"))).collect()
}
