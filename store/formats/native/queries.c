/* Finds the messages of a topic that have a key: walks a chain of an index file, and reads the records in the log.

IndexFile.select_offsets in index/index_file.py implements the full rule. The index file is mapped and may be damaged, so
every number in it is checked before its use. Layouts: formats/index.py, formats/index_key.py.
*/

#include "record.h"
#include "tables.h"

/* Arguments of find_with_key, in order. */
enum { INDEX_FILE, SLOTS, NEXT_ENTRY, FILE_BEGIN_MS, TOPIC, KEY, BEGIN_MS, END_MS, COUNT_MAX, SEGMENTS, SEGMENT_BYTES };
enum { LOG_BEGIN = SEGMENT_BYTES + 1, LIMIT, OFFSETS, RECORDS, ARGUMENTS };
enum { CACHE_LINE_BYTES = 64, LOAD_AHEAD_BYTES = 2048 };
static PyObject *file_name, *readable_name; /* names of attributes */
static const int64_t TIME_MAX_MS = (int64_t)1 << 62; /* sums with time differences fit into 64 bits */

typedef struct {
    const char *topic, *key;
    Py_ssize_t topic_bytes, key_bytes;
    long long begin_ms, end_ms, count_max, segment_bytes, log_begin, limit;
    PyObject *segments, *offsets, *records;
} Query;

int queries_begin(void) {
    file_name = PyUnicode_InternFromString("file");
    readable_name = PyUnicode_InternFromString("readable");
    return file_name != NULL && readable_name != NULL ? 0 : -1;
}

/* Continues a Java hash over UTF-8 text, whose UTF-16 code units count. */
static uint32_t java_hash(uint32_t hash, const char *text, Py_ssize_t bytes) {
    const uint8_t *at = (const uint8_t *)text, *end = at + bytes;
    while (at < end) {
        uint32_t point = *at++;
        int more = point < 0xC0 ? 0 : point < 0xE0 ? 1 : point < 0xF0 ? 2 : 3;
        point &= more ? 0xFFu >> (more + 2) : 0xFFu;
        for (; more > 0 && at < end; more--)
            point = point << 6 | (*at++ & 0x3F);
        if (point > 0xFFFF) {
            point -= 0x10000;
            hash = 31 * hash + (0xD800 | point >> 10);
            point = 0xDC00 | (point & 0x3FF);
        }
        hash = 31 * hash + point;
    }
    return hash;
}

static int32_t key_hash(const Query *query) {
    uint32_t hash = 31 * java_hash(0, query->topic, query->topic_bytes) + '#';
    hash = java_hash(hash, query->key, query->key_bytes);
    return (int32_t)(hash < 0x80000000u ? hash : hash == 0x80000000u ? 0 : 0u - hash);
}

static int is_same(Span span, const char *bytes, Py_ssize_t size) {
    return span.bytes == size && memcmp(span.at, bytes, (size_t)size) == 0;
}

static int is_wanted(const Query *query, const Record *record) {
    if (record->stored_ms < query->begin_ms || !is_same(record->topic, query->topic, query->topic_bytes))
        return 0;
    if (query->key_bytes > 0 && is_same(record->unique_key, query->key, query->key_bytes))
        return 1;
    Span pieces = record->keys, piece;
    while (take_piece(&pieces, KEY_SEPARATOR, &piece))
        if (piece.bytes > 0 && is_same(piece, query->key, query->key_bytes))
            return 1;
    return 0;
}

/* Lets the processor load a record before its parts are read, because each part is in another cache line. */
static void load_ahead(Span log) {
    for (int64_t at = 0; at < log.bytes && at < LOAD_AHEAD_BYTES; at += CACHE_LINE_BYTES)
        __builtin_prefetch(log.at + at);
}

/* Adds a record to the result if the query wants it. Returns 0 if it is not plain, -1 on an exception. */
static int take_plain(const Query *query, Span log, PyObject *offset, int64_t physical_offset) {
    Record record;
    load_ahead(log);
    int taken = read_record(log, 0, physical_offset, &record);
    if (taken && is_wanted(query, &record) && (taken = has_its_body(&record))) {
        PyObject *bytes = PyBytes_FromStringAndSize((const char *)log.at, (Py_ssize_t)record.size);
        if (bytes == NULL || PyList_Append(query->records, bytes) < 0 || PyList_Append(query->offsets, offset) < 0)
            taken = -1;
        Py_XDECREF(bytes);
    }
    return taken;
}

/* Finds the record at a log offset, and does the same as take_plain. Ignores an offset outside of the readable log. */
static int take_record(const Query *query, int64_t physical_offset) {
    if (physical_offset < query->log_begin || physical_offset >= query->limit)
        return 1;
    int64_t number = (physical_offset - query->log_begin) / query->segment_bytes;
    int64_t position = (physical_offset - query->log_begin) % query->segment_bytes;
    int64_t room = query->limit - physical_offset, rest = query->segment_bytes - position;
    if (number >= PyTuple_Size(query->segments))
        return 0; /* after a gap in the log, the numbers are wrong */
    PyObject *offset = PyLong_FromLongLong(physical_offset), *file = NULL, *pages = NULL;
    int taken = offset == NULL ? -1 : PySequence_Contains(query->offsets, offset);
    if (taken == 0) {
        Py_buffer log;
        taken = -1;
        file = PyObject_GetAttr(PyTuple_GetItem(query->segments, (Py_ssize_t)number), file_name);
        if (file != NULL)
            pages = PyObject_GetAttr(file, readable_name);
        if (pages != NULL && PyObject_GetBuffer(pages, &log, PyBUF_SIMPLE) == 0) {
            Span readable = {(const uint8_t *)log.buf + position, room < rest ? room : rest};
            taken = readable.bytes <= log.len - position ? take_plain(query, readable, offset, physical_offset) : 0;
            PyBuffer_Release(&log);
        }
    }
    Py_XDECREF(pages);
    Py_XDECREF(file);
    Py_XDECREF(offset);
    return taken;
}

/* Takes the records to which a chain leads. Returns 0 before a record that is not plain, -1 on an exception. */
static int walk_chain(const Query *query, const Py_buffer *index, int64_t slots, int64_t next_entry, int64_t file_begin_ms) {
    int64_t entries_at = INDEX_HEADER_BYTES + slots * INDEX_SLOT_BYTES;
    int64_t entries = (index->len - entries_at) / ENTRY_BYTES; /* including the unused entry 0 */
    const uint8_t *from = index->buf;
    int32_t hash = key_hash(query);
    int64_t number = i32(from + INDEX_HEADER_BYTES + hash % slots * INDEX_SLOT_BYTES);
    if (number > next_entry || number >= entries)
        return 1;
    while (number > 0 && PyList_Size(query->offsets) < query->count_max) {
        const uint8_t *entry = from + entries_at + number * ENTRY_BYTES;
        int64_t previous = i32(entry + 16);
        int64_t stored_ms = file_begin_ms + (number > 1 ? (int64_t)1000 * i32(entry + 12) : 0);
        if (i32(entry) == hash && query->begin_ms <= stored_ms + 999 && stored_ms <= query->end_ms) {
            int taken = take_record(query, i64(entry + 4));
            if (taken <= 0)
                return taken;
        }
        if (stored_ms + 999 < query->begin_ms || previous >= number)
            return 1;
        number = previous;
    }
    return 1;
}

/* See NativeCore.find in formats/columns.py. */
PyObject *find_with_key(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    (void)module;
    Query query;
    Py_buffer index;
    long long slots, next_entry, file_begin_ms;
    if (count != ARGUMENTS)
        return PyErr_Format(PyExc_TypeError, "expected %d arguments, found %zd", ARGUMENTS, count);
    if (!read_text(arguments[TOPIC], &query.topic, &query.topic_bytes) ||
        !read_text(arguments[KEY], &query.key, &query.key_bytes) || !read_integer(arguments[SLOTS], &slots) ||
        !read_integer(arguments[NEXT_ENTRY], &next_entry) || !read_integer(arguments[FILE_BEGIN_MS], &file_begin_ms) ||
        !read_integer(arguments[BEGIN_MS], &query.begin_ms) || !read_integer(arguments[END_MS], &query.end_ms) ||
        !read_integer(arguments[COUNT_MAX], &query.count_max) || !read_integer(arguments[LIMIT], &query.limit) ||
        !read_integer(arguments[SEGMENT_BYTES], &query.segment_bytes) ||
        !read_integer(arguments[LOG_BEGIN], &query.log_begin) || file_begin_ms < 0 || file_begin_ms > TIME_MAX_MS)
        Py_RETURN_FALSE;
    query.segments = arguments[SEGMENTS];
    query.offsets = arguments[OFFSETS];
    query.records = arguments[RECORDS];
    if (PyObject_GetBuffer(arguments[INDEX_FILE], &index, PyBUF_SIMPLE) < 0)
        return NULL;
    int taken = -1;
    if (slots <= 0 || slots > (index.len - INDEX_HEADER_BYTES) / INDEX_SLOT_BYTES || query.segment_bytes <= 0 ||
        query.log_begin < 0 || !PyTuple_Check(query.segments) || !PyList_Check(query.offsets) ||
        !PyList_Check(query.records))
        PyErr_SetString(PyExc_ValueError, "slots or log is out of range, or a result is no list");
    else
        taken = walk_chain(&query, &index, slots, next_entry, file_begin_ms);
    PyBuffer_Release(&index);
    return taken < 0 ? NULL : PyBool_FromLong(taken);
}
