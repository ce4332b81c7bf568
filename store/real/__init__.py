"""The world as it is: threads, mapped files, sockets, and an overlay that reads real files but never changes them."""
