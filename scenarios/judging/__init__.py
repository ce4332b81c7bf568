"""What a run is judged by: the ledger of what was promised, what was found, the judge; checkers: `invariants`."""
