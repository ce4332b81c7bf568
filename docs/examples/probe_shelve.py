"""Some objects in a shelf over dbm.dumb, each followed by sync().

tornlog probe --check probe_shelve_check.py -- probe_shelve.py
"""

# mypy: disable-error-code="arg-type, var-annotated"
import dbm.dumb
import shelve

from tornlog.faults.probe import acknowledge

with shelve.Shelf(dbm.dumb.open("orders"), writeback=True) as orders:
    for number in range(1, 4):
        orders[f"order {number}"] = {"number": number, "items": ["a book", "a pen"]}
        orders.sync()
        acknowledge(f"order {number}")
