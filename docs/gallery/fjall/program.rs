//! fjall: its `PersistMode` after each batch as `sync-all`, `sync-data` or `buffer`.

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;
use transactions::{count, main as run, promise, rows, Done, Program, TRANSACTIONS};

const DATABASE: &str = "db";

fn open(path: &Path) -> fjall::Result<(Database, Keyspace)> {
    let db = Database::builder(path).open()?;
    let rows = db.keyspace("rows", KeyspaceCreateOptions::default)?;
    Ok((db, rows))
}

fn make(_: &str) -> Done<()> {
    open(Path::new(DATABASE))?;
    Ok(())
}

fn write(setting: &str) -> Done<()> {
    let (db, keyspace) = open(Path::new(DATABASE))?;
    let mode = match setting {
        "sync-all" => PersistMode::SyncAll,
        "sync-data" => PersistMode::SyncData,
        _ => PersistMode::Buffer,
    };
    for transaction in 1..=TRANSACTIONS {
        let mut batch = db.batch().durability(Some(mode));
        for (key, value) in rows(transaction) {
            batch.insert(&keyspace, key, value);
        }
        batch.commit()?;
        promise(transaction);
    }
    std::mem::forget((db, keyspace)); // which are persisted when they are dropped
    Ok(())
}

fn find(directory: &Path) -> Done<[usize; TRANSACTIONS]> {
    let (db, keyspace) = open(&directory.join(DATABASE))?;
    let found = count(|key| Ok(keyspace.get(key)?.map(|value| value.to_vec())))?;
    keyspace.insert("more", "")?;
    db.persist(PersistMode::SyncAll)?;
    Ok(found)
}

fn main() -> Done<()> {
    run(Program { make, write, find, package: "fjall", lock: include_str!("Cargo.lock") })
}
