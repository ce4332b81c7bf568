"""Known programs, known settings: what the recorder of any program and the disk models find is what is documented."""
