"""Native core: the optional C module, loaded by `store.real.native`.

`store.formats.columns` describes the functions of the core.
"""

INTERFACE = 5
"""Version of the core's interface. When a function of the core changes, increase the number here and in records.c."""
