"""Tools over store directories. They do not change the directory; `rebuild` makes a new one."""
