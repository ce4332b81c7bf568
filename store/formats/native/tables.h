/* Shared by all parts of the core: Python, arguments, tables of columns, index files and big-endian numbers. */

#ifndef TORNLOG_TABLES_H
#define TORNLOG_TABLES_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* Columns of records and of keys, as in formats/columns.py. */
enum { OFFSET, SIZE, QUEUE, QUEUE_OFFSET, STORED_MS, TAGS_CODE, RECORD_COLUMNS };
enum { KEY_HASH, KEY_OFFSET, KEY_STORED_MS, KEY_COLUMNS };
enum { NO_QUEUE = -1 };

/* Sizes in consume queues and index files, whose entries have the same size. */
enum { ENTRY_BYTES = 20, INDEX_HEADER_BYTES = 40, INDEX_SLOT_BYTES = 4 };

/* Consecutive columns, each with room for rows_max 64-bit integers. */
typedef struct {
    uint8_t *bytes;
    Py_ssize_t rows, rows_max;
} Table;

static inline Table table_of(const Py_buffer *buffer, int columns) {
    return (Table){buffer->buf, 0, buffer->len / 8 / columns};
}

static inline uint32_t u32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline int32_t i32(const uint8_t *p) { return (int32_t)u32(p); }

static inline int64_t i64(const uint8_t *p) { return (int64_t)((uint64_t)u32(p) << 32 | u32(p + 4)); }

static inline void write_big_endian(uint8_t *to, uint64_t value, int bytes) {
    while (bytes--) {
        to[bytes] = (uint8_t)value;
        value >>= 8;
    }
}

static inline int64_t get(const Table *table, int column, Py_ssize_t row) {
    int64_t value;
    memcpy(&value, table->bytes + 8 * (column * table->rows_max + row), 8);
    return value;
}

static inline void set(Table *table, int column, Py_ssize_t row, int64_t value) {
    memcpy(table->bytes + 8 * (column * table->rows_max + row), &value, 8);
}

/* Reads a string as UTF-8. Returns 0 if it is no string or cannot be encoded. */
static inline int read_text(PyObject *from, const char **text, Py_ssize_t *bytes) {
    if (PyUnicode_Check(from) && (*text = PyUnicode_AsUTF8AndSize(from, bytes)) != NULL)
        return 1;
    PyErr_Clear();
    return 0;
}

/* Reads an integer. Returns 0 if it is none or has more than 64 bits. */
static inline int read_integer(PyObject *from, long long *value) {
    if (!PyLong_Check(from))
        return 0;
    *value = PyLong_AsLongLong(from);
    if (*value != -1 || PyErr_Occurred() == NULL)
        return 1;
    PyErr_Clear();
    return 0;
}

/* The functions of the module. */
PyObject *scan(PyObject *module, PyObject *args);
PyObject *queue_runs(PyObject *module, PyObject *args);
PyObject *index_links(PyObject *module, PyObject *args);
PyObject *pull_records(PyObject *module, PyObject *args);
PyObject *encode_record(PyObject *module, PyObject *args);
PyObject *encode_batch(PyObject *module, PyObject *args);
PyObject *place_records(PyObject *module, PyObject *args);
PyObject *store_record(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
int queries_begin(void); /* before the first find_with_key */
PyObject *find_with_key(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
