"""Sweeps: seeds by the hundred thousand, each a row of a table that outlives the sweep."""
