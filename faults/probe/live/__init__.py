"""Live runs: machines that run at the same time, of which some are cut or paused while the others go on.

Each machine has its own recorder, so its disk is known at every step, and a power cut can leave any crash image.
"""
