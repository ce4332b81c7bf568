"""Tools over store directories: they read one, or make a new one from it; what is read stays as it is."""
