"""The oracle: what users asked for and were answered (the ledger), what was found, and invariants that compare them."""
