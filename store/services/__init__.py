"""Services over a whole store: consumer offsets, consumer filters, transactions."""
