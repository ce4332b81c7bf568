"""Report pages: what many runs came to, each as one file that needs nothing else."""
