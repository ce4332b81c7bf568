"""The oracle: what users were told (the ledger), what was found, and the invariants that hold the two together."""
