"""Live runs: run several machines at once, and cut the power of some or pause them.

One recorder per machine records every change of its disk, so a power cut can leave any crash image.
"""
