"""The real world: threads, mapped files, sockets, and an overlay that reads real files but never changes them."""
