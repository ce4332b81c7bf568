"""The audit of a store directory of any size: what `verify` does, in tasks of Spark and wherever the store is."""
