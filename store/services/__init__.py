"""Services of a broker that use a store: consumer offsets, consumer filters, transactions."""
