"""The data that this shop stores on disk."""
