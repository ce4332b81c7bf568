"""Tools over store directories. The tools do not change a directory; `rebuild` makes a new one."""
