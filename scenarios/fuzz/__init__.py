"""Fuzzing of the store's formats and of recovery: valid inputs, broken where it hurts, and what must never come of it.

targets/, target     a class a format: makes valid inputs, and says what may come of any bytes at all; what they share
material             what valid inputs are made of
shape                what is where in an input, by kind of file
mutation             chance, from one seed; how an input is broken, by its shape
container, stores,   store directories as inputs: as bytes, made by the store itself, broken by files and names
directory_changes
engine               the loop: which inputs are broken next, which are kept, what was found; a smaller input
judging              time and memory of one input; what came of it, as a file too
campaign             one format from its corpus to its findings
coverage,            the same driven by atheris, which has a process of its own
covered_process
mutants              bugs of parsers, to be put in on purpose
"""
