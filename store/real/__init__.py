"""The world as it is: threads, mapped files, and an overlay that reads real files but never changes them."""
