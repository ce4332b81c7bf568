"""Oracle: records requests and responses in a ledger, and compares stores with the ledger."""
