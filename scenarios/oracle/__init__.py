"""Oracle: records requests and answers in a ledger, and compares stores with it by invariants."""
