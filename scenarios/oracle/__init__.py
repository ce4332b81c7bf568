"""Oracle: records requests and answers in a ledger, and compares stores with the ledger by invariants."""
