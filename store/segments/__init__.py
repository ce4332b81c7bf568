"""Files of fixed size in a row: mapped, appended to, flushed, allocated ahead."""
