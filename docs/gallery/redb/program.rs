//! redb: its `Durability` as `immediate` or `none`, or `two-phase`, which is immediate with two-phase commit.

use redb::{Database, Durability, ReadableTable, TableDefinition};
use std::path::Path;
use transactions::{count, main as run, promise, rows, Done, Program, TRANSACTIONS};

const DATABASE: &str = "db";
const TABLE: TableDefinition<&str, &[u8]> = TableDefinition::new("rows");

fn make(_: &str) -> Done<()> {
    Database::create(DATABASE)?;
    Ok(())
}

fn write(setting: &str) -> Done<()> {
    let db = Database::create(DATABASE)?;
    for transaction in 1..=TRANSACTIONS {
        let mut writer = db.begin_write()?;
        writer.set_durability(if setting == "none" { Durability::None } else { Durability::Immediate })?;
        writer.set_two_phase_commit(setting == "two-phase");
        let mut table = writer.open_table(TABLE)?;
        for (key, value) in rows(transaction) {
            table.insert(key.as_str(), value.as_slice())?;
        }
        drop(table);
        writer.commit()?;
        promise(transaction);
    }
    Ok(()) // the database is closed as it is dropped, with all data not durable yet
}

fn find(directory: &Path) -> Done<[usize; TRANSACTIONS]> {
    let mut db = Database::create(directory.join(DATABASE))?;
    db.check_integrity()?;
    let writer = db.begin_write()?;
    let mut table = writer.open_table(TABLE)?;
    let found = count(|key| Ok(table.get(key)?.map(|value| value.value().to_vec())))?;
    table.insert("more", [].as_slice())?;
    drop(table);
    writer.commit()?;
    Ok(found)
}

fn main() -> Done<()> {
    run(Program { make, write, find, package: "redb", lock: include_str!("Cargo.lock") })
}
