/* Reads consecutive plain records of a log into tables.

A record is plain if all of these hold: format V1; its sizes are consistent and fit; its physicalOffset is its position;
its body matches its CRC; it enters no light queue; no NUL in topic or properties; only ASCII in topic, tags and keys.
A scan stops before any other record. formats/scan.py implements the full rule and continues there, so this file reports
no errors.

The log is mapped and may change during a scan. Each length is therefore read once, checked against the remaining bytes,
and then used as read. Records are big-endian; columns are native int64.

Layouts: formats/message.py, formats/properties.py, formats/index_key.py.
*/

#include "record.h"
#include "tables.h"

enum { MESSAGE_MAGIC = (int32_t)0xDAA320A7, RECORD_BYTES_MIN = 91, HEAD_BYTES = 88, IPV6_EXTRA_BYTES = 12 };
enum { BORN_HOST_V6 = 0x10, STORE_HOST_V6 = 0x20 };
enum { TRANSACTION_PREPARED = 4, TRANSACTION_ROLLBACK = 12, TRANSACTION_MASK = 12 };
enum { TOPIC_BYTES_MAX = 127, PROPERTIES_BYTES_MAX = 32767, QUEUE_ID_BYTES = 4 };
enum { NAME_SEPARATOR = 1, ENTRY_SEPARATOR = 2 };

/* Continues a Java hash over text. Returns whether all of it is ASCII without NUL. */
static int hash_ascii(Span text, uint32_t *hash) {
    uint32_t h = *hash;
    for (int64_t i = 0; i < text.bytes; i++) {
        if (text.at[i] == 0 || text.at[i] > 0x7F)
            return 0;
        h = 31 * h + text.at[i];
    }
    *hash = h;
    return 1;
}

static int value_of(Span entry, const char *name, Span *value) {
    int64_t name_bytes = (int64_t)strlen(name);
    if (entry.bytes <= name_bytes + 1 || memcmp(entry.at, name, (size_t)name_bytes) != 0 ||
        entry.at[name_bytes] != NAME_SEPARATOR)
        return 0;
    *value = (Span){entry.at + name_bytes + 1, entry.bytes - name_bytes - 1};
    return 1;
}

/* The later of two equal names wins. Entries without a value are ignored. */
static void find_properties(Span properties, Record *record) {
    Span entry;
    while (take_piece(&properties, ENTRY_SEPARATOR, &entry))
        (void)(value_of(entry, "TAGS", &record->tags) || value_of(entry, "KEYS", &record->keys) ||
               value_of(entry, "UNIQ_KEY", &record->unique_key) ||
               value_of(entry, "INNER_MULTI_DISPATCH", &record->light));
}

int read_record(Span log, int64_t at, int64_t base_offset, Record *record) {
    const uint8_t *p = log.at + at;
    int64_t room = log.bytes - at;
    if (room < RECORD_BYTES_MIN)
        return 0;
    int64_t size = i32(p);
    if (i32(p + 4) != MESSAGE_MAGIC || size < RECORD_BYTES_MIN || size > room)
        return 0;
    int32_t sys_flag = i32(p + 36);
    int64_t born_extra = sys_flag & BORN_HOST_V6 ? IPV6_EXTRA_BYTES : 0;
    int64_t head = HEAD_BYTES + born_extra + (sys_flag & STORE_HOST_V6 ? IPV6_EXTRA_BYTES : 0);
    int64_t left = size - head - 3; /* for body, topic and properties */
    if (left < 0)
        return 0;
    *record = (Record){
        .offset = i64(p + 28),
        .size = size,
        .queue_offset = i64(p + 20),
        .stored_ms = i64(p + 56 + born_extra),
        .sys_flag = sys_flag,
        .crc = u32(p + 8),
        .queue_id = p + 12,
        .body = {p + head, i32(p + head - 4)},
    };
    if ((uint64_t)record->offset != (uint64_t)base_offset + (uint64_t)at)
        return 0;
    if (record->body.bytes < 0 || record->body.bytes > left)
        return 0;
    left -= record->body.bytes;
    const uint8_t *tail = record->body.at + record->body.bytes;
    record->topic = (Span){tail + 1, tail[0]};
    if (record->topic.bytes == 0 || record->topic.bytes > TOPIC_BYTES_MAX || record->topic.bytes > left)
        return 0;
    left -= record->topic.bytes;
    tail = record->topic.at + record->topic.bytes;
    Span properties = {tail + 2, (int64_t)tail[0] << 8 | tail[1]};
    if (properties.bytes != left || left > PROPERTIES_BYTES_MAX)
        return 0;
    if (left > 0 && memchr(properties.at, 0, (size_t)left) != NULL)
        return 0;
    find_properties(properties, record);
    return record->light.bytes == 0;
}

/* Returns 1 and the number of a queue, 0 if it is unknown, -1 with an exception set. */
static int find_queue(PyObject *queues, const Record *record, int64_t *number) {
    char name[QUEUE_ID_BYTES + TOPIC_BYTES_MAX];
    memcpy(name, record->queue_id, QUEUE_ID_BYTES);
    memcpy(name + QUEUE_ID_BYTES, record->topic.at, (size_t)record->topic.bytes);
    PyObject *key = PyBytes_FromStringAndSize(name, (Py_ssize_t)(QUEUE_ID_BYTES + record->topic.bytes));
    if (key == NULL)
        return -1;
    PyObject *found = PyDict_GetItemWithError(queues, key); /* borrowed */
    Py_DECREF(key);
    if (found == NULL)
        return PyErr_Occurred() ? -1 : 0;
    *number = PyLong_AsLongLong(found);
    return *number == -1 && PyErr_Occurred() ? -1 : 1;
}

/* Adds a row for a key. Returns 0 if it is not ASCII or does not fit. prefix: the hash of topic and '#'. */
static int add_key(Table *keys, const Record *record, Span key, uint32_t prefix) {
    if (keys->rows == keys->rows_max || !hash_ascii(key, &prefix))
        return 0;
    uint32_t positive = prefix < 0x80000000u ? prefix : prefix == 0x80000000u ? 0 : 0u - prefix;
    set(keys, KEY_HASH, keys->rows, positive);
    set(keys, KEY_OFFSET, keys->rows, record->offset);
    set(keys, KEY_STORED_MS, keys->rows, record->stored_ms);
    keys->rows++;
    return 1;
}

/* Adds a record's keys: UNIQ_KEY, then each part of KEYS. Returns 0 if one was not added; others may have been. */
static int add_keys(Table *keys, const Record *record, uint32_t topic_hash) {
    if ((record->sys_flag & TRANSACTION_MASK) == TRANSACTION_ROLLBACK)
        return 1;
    uint32_t prefix = 31 * topic_hash + '#';
    if (record->unique_key.bytes > 0 && !add_key(keys, record, record->unique_key, prefix))
        return 0;
    Span pieces = record->keys, key;
    while (take_piece(&pieces, KEY_SEPARATOR, &key))
        if (key.bytes > 0 && !add_key(keys, record, key, prefix))
            return 0;
    return 1;
}

/* Adds rows up to the first record that is not plain. Returns its position, -1 with an exception set. */
static int64_t scan_plain(Span log, int64_t at, int64_t base_offset, int check_crc, PyObject *queues,
                          int64_t stored_ms_max, Table *rows, Table *keys) {
    Record record;
    while (rows->rows < rows->rows_max && read_record(log, at, base_offset, &record)) {
        int64_t queue = NO_QUEUE;
        int32_t transaction = record.sys_flag & TRANSACTION_MASK;
        int is_known = 1;
        if (transaction != TRANSACTION_PREPARED && transaction != TRANSACTION_ROLLBACK)
            is_known = find_queue(queues, &record, &queue);
        if (is_known < 0)
            return -1;
        uint32_t topic_hash = 0, tags_hash = 0;
        if (!is_known || record.stored_ms > stored_ms_max || !hash_ascii(record.topic, &topic_hash) ||
            !hash_ascii(record.tags, &tags_hash) || (check_crc && !has_its_body(&record)))
            break;
        Py_ssize_t keys_before = keys->rows;
        if (!add_keys(keys, &record, topic_hash)) {
            keys->rows = keys_before;
            break;
        }
        set(rows, OFFSET, rows->rows, record.offset);
        set(rows, SIZE, rows->rows, record.size);
        set(rows, QUEUE, rows->rows, queue);
        set(rows, QUEUE_OFFSET, rows->rows, record.queue_offset);
        set(rows, STORED_MS, rows->rows, record.stored_ms);
        set(rows, TAGS_CODE, rows->rows, (int32_t)tags_hash);
        rows->rows++;
        at += record.size;
    }
    return at;
}

/* See Core.scan in formats/columns.py. */
PyObject *scan(PyObject *module, PyObject *args) {
    (void)module;
    Py_buffer log, rows_buffer, keys_buffer;
    PyObject *queues, *result = NULL;
    int check_crc;
    long long start, base_offset, stored_ms_max;
    if (!PyArg_ParseTuple(args, "y*LLpO!Lw*w*", &log, &start, &base_offset, &check_crc, &PyDict_Type, &queues,
                          &stored_ms_max, &rows_buffer, &keys_buffer))
        return NULL;
    Table rows = table_of(&rows_buffer, RECORD_COLUMNS), keys = table_of(&keys_buffer, KEY_COLUMNS);
    if (start < 0 || start > log.len) {
        PyErr_SetString(PyExc_ValueError, "start is outside of the log");
    } else {
        Span all = {log.buf, log.len};
        int64_t next = scan_plain(all, start, base_offset, check_crc, queues, stored_ms_max, &rows, &keys);
        if (next >= 0)
            result = Py_BuildValue("nnL", rows.rows, keys.rows, (long long)next);
    }
    PyBuffer_Release(&log);
    PyBuffer_Release(&rows_buffer);
    PyBuffer_Release(&keys_buffer);
    return result;
}
