"""Report pages: the results of many runs, each as one self-contained file."""
