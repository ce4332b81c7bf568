"""Some entries in a dbm.dumb database, each followed by sync(): "Synchronize the on-disk directory and data files".

tornlog probe --check probe_dbm_dumb_check.py -- probe_dbm_dumb.py
"""

import dbm.dumb

from tornlog.faults.probe import acknowledge

with dbm.dumb.open("accounts") as accounts:
    for name in ("ann", "bob", "cid"):
        accounts[name] = f"the account of {name}"
        accounts.sync()
        acknowledge(name)
