"""The proof that a seed is a run: everything again in other processes, orders, batches and interpreters, compared.

`witness` is the other process, `interpreters` finds and furnishes other Pythons, `comparison` sets them to work.
"""
