"""Known bugs, a module for each component. Every `Mutant` of a module here is registered by being there."""
