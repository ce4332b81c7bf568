/* Reads the records of a pull: those that entries of one queue point to, in one segment of the log. */

#include "tables.h"

enum { BLANK_SIZE = INT32_MAX };
static const int64_t ADDRESS_MAX = INT32_MIN - 1LL; /* a tagsCode up to it is an address: formats/consume_queue.py */

/* Returns whether a set contains the low 32 bits of a tagsCode, -1 with an exception set. */
static int is_wanted(PyObject *codes, int64_t tags_code) {
    if (codes == Py_None)
        return 1;
    PyObject *code = PyLong_FromUnsignedLong((uint32_t)tags_code);
    if (code == NULL)
        return -1;
    int found = PySet_Contains(codes, code);
    Py_DECREF(code);
    return found;
}

/* Appends and releases a new reference. Returns 0 with an exception set. */
static int append(PyObject *list, PyObject *one) {
    int appended = one != NULL && PyList_Append(list, one) == 0;
    Py_XDECREF(one);
    return appended;
}

/* See Core.pull in formats/columns.py. */
PyObject *pull_records(PyObject *module, PyObject *args) {
    (void)module;
    Py_buffer entries, log;
    Py_ssize_t count_max, at = 0, count = 0;
    long long base_offset, begin, bytes_max, bytes = 0, last = 0;
    PyObject *codes, *result = NULL;
    if (!PyArg_ParseTuple(args, "y*y*LLOnL", &entries, &log, &base_offset, &begin, &codes, &count_max, &bytes_max))
        return NULL;
    PyObject *records = PyList_New(0), *offsets = PyList_New(0), *places = PyList_New(0);
    if (records == NULL || offsets == NULL || places == NULL)
        goto done;
    if (base_offset < 0 || (codes != Py_None && !PyFrozenSet_Check(codes))) {
        PyErr_SetString(PyExc_ValueError, "base_offset is below 0, or codes is no frozenset");
        goto done;
    }
    for (; entries.len - at >= ENTRY_BYTES; at += ENTRY_BYTES) {
        const uint8_t *entry = (const uint8_t *)entries.buf + at;
        int64_t offset = i64(entry), tags_code = i64(entry + 12);
        int32_t size = i32(entry + 8);
        if (offset < begin || offset < base_offset || size <= 0 || size == BLANK_SIZE || tags_code <= ADDRESS_MAX)
            break;
        if (offset - base_offset > log.len || size > log.len - (offset - base_offset))
            break;
        if (count > 0 && (count >= count_max || size > bytes_max - bytes))
            break;
        int wanted = is_wanted(codes, tags_code);
        if (wanted < 0)
            goto done;
        last = offset;
        if (!wanted)
            continue;
        const char *record = (const char *)log.buf + (offset - base_offset);
        if (!append(records, PyBytes_FromStringAndSize(record, size)) || !append(offsets, PyLong_FromLongLong(offset)) ||
            !append(places, PyLong_FromSsize_t(at / ENTRY_BYTES)))
            goto done;
        bytes += size;
        count++;
    }
    result = Py_BuildValue("OOOnLL", records, offsets, places, at / ENTRY_BYTES, bytes, last);
done:
    Py_XDECREF(records);
    Py_XDECREF(offsets);
    Py_XDECREF(places);
    PyBuffer_Release(&entries);
    PyBuffer_Release(&log);
    return result;
}
