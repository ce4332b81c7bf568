/* Makes entries of scanned records: for consume queues by runs, for index files linked by slots.

Layouts: formats/consume_queue.py and formats/index.py.
*/

#include "tables.h"

/* Encodes the queue entries of the rows order[begin:end]. */
static PyObject *entries_of(const Table *rows, const Py_ssize_t *order, Py_ssize_t begin, Py_ssize_t end) {
    PyObject *made = PyBytes_FromStringAndSize(NULL, (end - begin) * ENTRY_BYTES);
    if (made == NULL)
        return NULL;
    uint8_t *to = (uint8_t *)PyBytes_AsString(made);
    for (Py_ssize_t i = begin; i < end; i++, to += ENTRY_BYTES) {
        write_big_endian(to, (uint64_t)get(rows, OFFSET, order[i]), 8);
        write_big_endian(to + 8, (uint64_t)get(rows, SIZE, order[i]), 4);
        write_big_endian(to + 12, (uint64_t)get(rows, TAGS_CODE, order[i]), 8);
    }
    return made;
}

/* Encodes the store times of the rows order[begin:end] as native 64-bit integers. */
static PyObject *times_of(const Table *rows, const Py_ssize_t *order, Py_ssize_t begin, Py_ssize_t end) {
    PyObject *made = PyBytes_FromStringAndSize(NULL, (end - begin) * 8);
    if (made == NULL)
        return NULL;
    char *to = PyBytes_AsString(made);
    for (Py_ssize_t i = begin; i < end; i++, to += 8) {
        int64_t stored_ms = get(rows, STORED_MS, order[i]);
        memcpy(to, &stored_ms, 8);
    }
    return made;
}

/* See Core.runs in formats/columns.py. */
PyObject *queue_runs(PyObject *module, PyObject *args) {
    (void)module;
    Py_buffer buffer;
    Py_ssize_t count, queues;
    if (!PyArg_ParseTuple(args, "y*nn", &buffer, &count, &queues))
        return NULL;
    Table rows = table_of(&buffer, RECORD_COLUMNS);
    PyObject *found = NULL;
    Py_ssize_t *ends = NULL, *order = NULL;
    if (count < 0 || count > rows.rows_max || queues < 0) {
        PyErr_SetString(PyExc_ValueError, "count or queues is out of range");
        goto done;
    }
    ends = PyMem_Calloc((size_t)queues + 1, sizeof *ends); /* first, later last position of q in order */
    order = PyMem_Calloc((size_t)count + 1, sizeof *order);
    if (ends == NULL || order == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    for (Py_ssize_t row = 0; row < count; row++) {
        int64_t queue = get(&rows, QUEUE, row);
        if (queue < NO_QUEUE || queue >= queues) {
            PyErr_SetString(PyExc_ValueError, "a row has a queue that is out of range");
            goto done;
        }
        if (queue != NO_QUEUE)
            ends[queue + 1]++;
    }
    for (Py_ssize_t queue = 0; queue < queues; queue++)
        ends[queue + 1] += ends[queue];
    for (Py_ssize_t row = 0; row < count; row++)
        if (get(&rows, QUEUE, row) != NO_QUEUE)
            order[ends[get(&rows, QUEUE, row)]++] = row;
    found = PyList_New(0);
    for (Py_ssize_t queue = 0, begin = 0; found != NULL && queue < queues; queue++)
        while (begin < ends[queue]) {
            int64_t first = get(&rows, QUEUE_OFFSET, order[begin]);
            Py_ssize_t end = begin + 1;
            while (end < ends[queue] &&
                   (uint64_t)get(&rows, QUEUE_OFFSET, order[end]) == (uint64_t)first + (uint64_t)(end - begin))
                end++;
            PyObject *entries = entries_of(&rows, order, begin, end), *times = times_of(&rows, order, begin, end);
            PyObject *run =
                entries && times ? Py_BuildValue("nLOO", queue, (long long)first, entries, times) : NULL;
            Py_XDECREF(entries);
            Py_XDECREF(times);
            if (run == NULL || PyList_Append(found, run) < 0)
                Py_CLEAR(found);
            Py_XDECREF(run);
            if (found == NULL)
                break;
            begin = end;
        }
done:
    PyMem_Free(ends);
    PyMem_Free(order);
    PyBuffer_Release(&buffer);
    return found;
}

/* Sets a slot's newest entry in a dict, and returns the previous one from the dict, else from the file.
-1 with an exception set. */
static int64_t led_to(PyObject *newest, const uint8_t *index, int64_t slot_at, int64_t number) {
    int64_t before = -1;
    PyObject *key = PyLong_FromLongLong(slot_at), *value = PyLong_FromLongLong(number);
    if (key != NULL && value != NULL) {
        PyObject *found = PyDict_GetItemWithError(newest, key); /* borrowed */
        if (found != NULL)
            before = PyLong_AsLongLong(found);
        else if (!PyErr_Occurred())
            before = i32(index + slot_at);
        if (before < 0 && !PyErr_Occurred())
            before = 0; /* no entry has such a number */
        if (before >= 0 && PyDict_SetItem(newest, key, value) < 0)
            before = -1;
    }
    Py_XDECREF(key);
    Py_XDECREF(value);
    return before;
}

static int32_t time_diff_s(int64_t begin_ms, int64_t stored_ms) {
    if (begin_ms <= 0 || stored_ms <= begin_ms)
        return 0;
    int64_t diff_s = (stored_ms - begin_ms) / 1000;
    return diff_s < INT32_MAX ? (int32_t)diff_s : INT32_MAX;
}

/* See Core.link in formats/columns.py. */
PyObject *index_links(PyObject *module, PyObject *args) {
    (void)module;
    Py_buffer keys_buffer, index;
    PyObject *newest, *entries = NULL, *result = NULL;
    Py_ssize_t begin, end, slots, used = 0;
    long long number, begin_ms;
    if (!PyArg_ParseTuple(args, "y*nny*nO!LL", &keys_buffer, &begin, &end, &index, &slots, &PyDict_Type, &newest,
                          &number, &begin_ms))
        return NULL;
    Table keys = table_of(&keys_buffer, KEY_COLUMNS);
    if (begin < 0 || begin > end || end > keys.rows_max || number < 1 || number > INT32_MAX - (end - begin) ||
        slots <= 0 || slots > (index.len - INDEX_HEADER_BYTES) / INDEX_SLOT_BYTES) {
        PyErr_SetString(PyExc_ValueError, "rows, slots or number is out of range");
        goto done;
    }
    entries = PyBytes_FromStringAndSize(NULL, (end - begin) * ENTRY_BYTES);
    if (entries == NULL)
        goto done;
    uint8_t *to = (uint8_t *)PyBytes_AsString(entries);
    for (Py_ssize_t row = begin; row < end; row++, number++, to += ENTRY_BYTES) {
        int64_t hash = get(&keys, KEY_HASH, row), stored_ms = get(&keys, KEY_STORED_MS, row);
        int64_t slot_at = INDEX_HEADER_BYTES + (int64_t)((uint64_t)hash % (uint64_t)slots) * INDEX_SLOT_BYTES;
        int64_t previous = led_to(newest, index.buf, slot_at, number);
        if (previous < 0)
            goto done;
        if (previous >= number)
            previous = 0; /* invalid after a crash */
        used += previous == 0;
        write_big_endian(to, (uint64_t)hash, 4);
        write_big_endian(to + 4, (uint64_t)get(&keys, KEY_OFFSET, row), 8);
        write_big_endian(to + 12, (uint64_t)time_diff_s(begin_ms, stored_ms), 4);
        write_big_endian(to + 16, (uint64_t)previous, 4);
        if (number == 1)
            begin_ms = stored_ms; /* the first key of a file is counted from the header's old time */
    }
    result = Py_BuildValue("On", entries, used);
done:
    Py_XDECREF(entries);
    PyBuffer_Release(&keys_buffer);
    PyBuffer_Release(&index);
    return result;
}
