"""Tools over store directories. They change no directory; one makes a copy."""
