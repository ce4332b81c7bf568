"""How long puts take: the store under open-loop traffic, on models of disks and, to compare, on this machine."""
