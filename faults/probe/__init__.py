"""Crash states of unmodified Python programs: what one does to its files is recorded, and done on a simulated disk.

`recording` stands in the program's process and uses the real world; everything else here is simulated. A program that
is to say what it promises imports one name, which costs nothing when nobody records:

    from tornlog.faults.probe import acknowledge

    acknowledge("order 7 stored")
"""

from .record import acknowledge as acknowledge
