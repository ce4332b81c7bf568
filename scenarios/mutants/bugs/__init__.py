"""Known bugs, one module for each component. `scenarios.mutants` collects them."""
