/* The C core as a Python module. Its functions are described by Core in formats/columns.py. */

#include "crc32.h"
#include "tables.h"

enum { INTERFACE = 7 }; /* same as in formats/native/__init__.py: the version of the functions' arguments and results */

static PyMethodDef functions[] = {
    {"scan", scan, METH_VARARGS, NULL},
    {"runs", queue_runs, METH_VARARGS, NULL},
    {"link", index_links, METH_VARARGS, NULL},
    {"pull", pull_records, METH_VARARGS, NULL},
    {"encode", encode_record, METH_VARARGS, NULL},
    {"encode_batch", encode_batch, METH_VARARGS, NULL},
    {"place", place_records, METH_VARARGS, NULL},
    {"store", (PyCFunction)(void (*)(void))store_record, METH_FASTCALL, NULL},
    {"find", (PyCFunction)(void (*)(void))find_with_key, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static int begin(PyObject *module) {
    checksum_begin();
    if (queries_begin() < 0)
        return -1;
    return PyModule_AddIntConstant(module, "INTERFACE", INTERFACE);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, begin}, {0, NULL}};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "_records", .m_methods = functions, .m_slots = slots};

PyMODINIT_FUNC PyInit__records(void) { return PyModuleDef_Init(&definition); }
