"""The real world: threads, mapped files, sockets, and a read-only overlay."""
