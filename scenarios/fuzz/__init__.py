"""Fuzzing: mutates valid inputs of formats and recovery, and judges each result.

targets/, target     one class for each format: makes valid inputs, and judges any bytes
material             parts of valid inputs
shape                fields and parts of an input, by kind of file
mutation             draws of one seed; mutation of an input by its shape
container, stores,   store directories as inputs: packed, made by the store, mutated by file and by name
directory_changes
engine               the loop: selection, corpus, findings, minimisation
judging              limits of time and memory; violations, and their files
campaign             one format from its corpus to its findings
coverage,            the same driven by atheris in a process of its own
covered_process
mutants              planted parser bugs
"""
