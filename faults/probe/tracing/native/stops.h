/* Requests about stopped threads, used by all files of the recorder's C core. */

#ifndef TORNLOG_STOPS_H
#define TORNLOG_STOPS_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <Python.h>
#include <stdint.h>

enum { ALL_CHILDREN = 0x40000000 }; /* of waitpid: __WALL */

long request(int what, int thread, uintptr_t address, uintptr_t data);

/* Raise the error of a request: OSError, or the exception from the module's `gone` if the thread has ended. */
PyObject *failed(PyObject *module, int thread);

/* Wait without the GIL until a thread stops or ends. Return the thread, 0 after a signal to this process, or -1. */
int next_stop(int thread, int *status);

/* Plain calls: see these functions in tracing/core.py. */
PyObject *execute_plain_call(PyObject *module, PyObject *args);
PyObject *wait_after_plain_calls(PyObject *module, PyObject *args);

#endif
