"""Fuzzing of the store's formats and of recovery: valid inputs, broken where it hurts, and what must never come of it.

targets/, target      one file a format: makes valid inputs, and says what may come of any bytes at all; what they share
draw, material        chance, from one seed; what valid inputs are made of
shape, file_shapes,   what is where in an input, and in each kind of file
record_shape
mutation              how an input is broken, by its shape
container, stores,    store directories as inputs: as bytes, made by the store itself, broken by files and names
directory_changes
served                what a store may serve, by the oracle's own reader
simulated             one task on one simulated machine
corpus, engine        the loop: which inputs are broken next, which are kept, what was found
bounds, judging       time and memory of one input; what came of it
minimise, finding     a smaller input that breaks the same promise; the file that is left of it
campaign              one format from its corpus to its findings
coverage,             the same driven by atheris, which has a process of its own
covered_process
mutants               bugs of parsers, to be put in on purpose
"""
