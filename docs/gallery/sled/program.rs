//! sled: `flush` after each transaction, or `default`, which leaves that to its thread, by default every 500 ms.

use std::path::Path;
use transactions::{count, main as run, promise, rows, Done, Program, TRANSACTIONS};

const DATABASE: &str = "db";

fn open(path: &Path) -> sled::Result<sled::Db> {
    // A segment is written as a whole, and the cache is as large as the rows are small.
    sled::Config::new().path(path).cache_capacity(1 << 20).open()
}

fn make(_: &str) -> Done<()> {
    open(Path::new(DATABASE))?.flush()?;
    Ok(())
}

fn write(setting: &str) -> Done<()> {
    let db = open(Path::new(DATABASE))?;
    for transaction in 1..=TRANSACTIONS {
        let mut batch = sled::Batch::default();
        for (key, value) in rows(transaction) {
            batch.insert(key.as_str(), value);
        }
        db.apply_batch(batch)?;
        if setting == "flush" {
            db.flush()?;
        }
        promise(transaction);
    }
    Ok(()) // the database is flushed as it is dropped
}

fn find(directory: &Path) -> Done<[usize; TRANSACTIONS]> {
    let db = open(&directory.join(DATABASE))?;
    db.verify_integrity()?;
    let found = count(|key| Ok(db.get(key)?.map(|value| value.to_vec())))?;
    db.insert("more", "")?;
    db.flush()?;
    Ok(found)
}

fn main() -> Done<()> {
    run(Program { make, write, find, package: "sled", lock: include_str!("Cargo.lock") })
}
