// Saves three values by rename. With the argument `sync`, each one is durable when its number is printed.
use tokio_uring::fs::{self, File, OpenOptions};

fn main() -> std::io::Result<()> {
    let syncs = std::env::args().any(|argument| argument == "sync");
    tokio_uring::start(async {
        for number in 0..3 {
            let file = OpenOptions::new().write(true).create(true).truncate(true).open("new").await?;
            file.write_all_at(format!("value {number}").into_bytes(), 0).await.0?;
            if syncs {
                file.sync_data().await?;
            }
            file.close().await?;
            fs::rename("new", "value").await?;
            if syncs {
                File::open(".").await?.sync_all().await?;
            }
            println!("{number}");
        }
        Ok(())
    })
}
