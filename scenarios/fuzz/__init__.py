"""Fuzzing: mutates valid inputs of parsers and recovery, and judges each result.

targets/, target     one class for each format: makes valid inputs, and judges any bytes
material             random parts of valid inputs
shape                fields and parts of an input, by file format
mutation             random numbers of one seed; mutation of an input by its shape
container, stores    store directories as inputs: packed; made by the store, mutated
engine               fuzzing loop: selection, corpus, findings, minimisation
judging              limits of time and memory; violations and their files
campaign             fuzzes one format and minimises the findings
coverage,            fuzzing by atheris in a separate process
covered_process
mutants              deliberate parser bugs
"""
