"""What this shop keeps on disk."""
