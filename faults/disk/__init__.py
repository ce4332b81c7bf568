"""One simulated disk: names, page cache, maps and descriptors, syncs, injected faults, images."""
