/* Encodes the records of a put and places them. Layouts: formats/message.py and formats/batch.py. */

#include "crc32.h"
#include "tables.h"

enum { MAGIC = (int32_t)0xDAA320A7, BORN_V6 = 0x10, STORE_V6 = 0x20, IPV4_BYTES = 4, IPV6_BYTES = 16 };
enum { TOPIC_BYTES_MAX = 127, PROPERTIES_BYTES_MAX = 32767, UNIT_BYTES_MIN = 22, BEHIND_BODY_BYTES = 3 };
enum { QUEUE_OFFSET_AT = 20, PHYSICAL_OFFSET_AT = 28, STORED_AT = 56, IPV6_EXTRA_BYTES = IPV6_BYTES - IPV4_BYTES };

/* Fields shared by all records of a put. */
typedef struct {
    const char *topic, *born_address, *store_address;
    Py_ssize_t topic_bytes, born_bytes, store_bytes;
    long long queue_id, sys_flag, born_ms, born_port, store_port, reconsume_times, prepared_at;
} Head;

static int is_int32(long long value) { return value >= INT32_MIN && value <= INT32_MAX; }

/* Returns whether the Python code would accept it. For others it reports the reason. */
static int is_plain(const Head *head) {
    Py_ssize_t born_bytes = head->sys_flag & BORN_V6 ? IPV6_BYTES : IPV4_BYTES;
    Py_ssize_t store_bytes = head->sys_flag & STORE_V6 ? IPV6_BYTES : IPV4_BYTES;
    return head->topic_bytes > 0 && head->topic_bytes <= TOPIC_BYTES_MAX && head->born_bytes == born_bytes &&
           head->store_bytes == store_bytes && is_int32(head->queue_id) && is_int32(head->sys_flag) &&
           is_int32(head->born_port) && is_int32(head->store_port) && is_int32(head->reconsume_times);
}

static Py_ssize_t size_of(const Head *head, Py_ssize_t body_bytes, Py_ssize_t properties_bytes) {
    return 80 + head->born_bytes + head->store_bytes + body_bytes + BEHIND_BODY_BYTES + head->topic_bytes +
           properties_bytes;
}

static uint8_t *number(uint8_t *at, long long value, int bytes) {
    write_big_endian(at, (uint64_t)value, bytes);
    return at + bytes;
}

static uint8_t *copied(uint8_t *at, const void *from, Py_ssize_t bytes) {
    memcpy(at, from, (size_t)bytes);
    return at + bytes;
}

/* Writes a record up to its properties. Returns their position; the caller writes them. */
static uint8_t *begin_record(uint8_t *at, const Head *head, long long flag, const uint8_t *body, Py_ssize_t body_bytes,
                             Py_ssize_t properties_bytes) {
    at = number(at, size_of(head, body_bytes, properties_bytes), 4);
    at = number(at, MAGIC, 4);
    at = number(at, checksum(body, (size_t)body_bytes) & INT32_MAX, 4);
    at = number(at, head->queue_id, 4);
    at = number(at, flag, 4);
    at = number(number(at, 0, 8), 0, 8); /* queueOffset and physicalOffset: place_records */
    at = number(at, head->sys_flag, 4);
    at = number(at, head->born_ms, 8);
    at = number(copied(at, head->born_address, head->born_bytes), head->born_port, 4);
    at = number(at, 0, 8); /* storeTimestamp */
    at = number(copied(at, head->store_address, head->store_bytes), head->store_port, 4);
    at = number(at, head->reconsume_times, 4);
    at = number(at, head->prepared_at, 8);
    at = copied(number(at, body_bytes, 4), body, body_bytes);
    at = copied(number(at, head->topic_bytes, 1), head->topic, head->topic_bytes);
    return number(at, properties_bytes, 2);
}

/* Whether a topic can be the name of a directory, like is_storable_topic in formats/messages.py. */
static int is_storable(const char *topic, Py_ssize_t bytes) {
    return memchr(topic, '/', (size_t)bytes) == NULL && memchr(topic, 0, (size_t)bytes) == NULL &&
           !(bytes == 1 && topic[0] == '.') && !(bytes == 2 && topic[0] == '.' && topic[1] == '.');
}

/* Whether properties have no NUL and no DELAY_MARK of formats/redirect.py. */
static int is_undelayed(const char *properties, Py_ssize_t bytes) {
    static const char mark[] = "DELAY\x01";
    const Py_ssize_t mark_bytes = sizeof mark - 1;
    const char *at = properties, *end = properties + bytes;
    if (memchr(properties, 0, (size_t)bytes) != NULL)
        return 0;
    while (end - at >= mark_bytes && (at = memchr(at, mark[0], (size_t)(end - at - mark_bytes + 1))) != NULL)
        if (memcmp(at++, mark, (size_t)mark_bytes) == 0)
            return 0;
    return 1;
}

/* Reads bytes. Returns 0 for other objects, whose content could change. */
static int read_bytes(PyObject *from, const char **raw, Py_ssize_t *bytes) {
    if (!PyBytes_Check(from))
        return 0;
    *raw = PyBytes_AsString(from);
    *bytes = PyBytes_Size(from);
    return 1;
}

/* Reads the address and port of a host. Returns 0 for others. */
static int read_host(PyObject *from, const char **address, Py_ssize_t *bytes, long long *port) {
    return PyTuple_Check(from) && PyTuple_Size(from) == 2 && read_bytes(PyTuple_GetItem(from, 0), address, bytes) &&
           read_integer(PyTuple_GetItem(from, 1), port);
}

/* Arguments of store_record, in order. */
enum { PAGES, POSITION, BODY_MAX, TOPIC, PROPERTIES, BODY, QUEUE_ID, FLAG, SYS_FLAG, BORN_MS, BORN_HOST, STORE_HOST };
enum { RECONSUME_TIMES = STORE_HOST + 1, PREPARED_AT, PLACE_QUEUE_OFFSET, PLACE_PHYSICAL_OFFSET, PLACE_STORED_MS };
enum { ARGUMENTS = PLACE_STORED_MS + 1, BLANK_BYTES = 8, TRANSACTION_MASK = 12, TRANSACTION_PREPARED = 4 };

/* A single message, and where its record goes. */
typedef struct {
    Head head;
    const char *properties, *body;
    Py_ssize_t properties_bytes, body_bytes;
    long long flag, position, body_max, queue_offset, physical_offset, stored_ms;
} Put;

/* Returns 0 if the message is not plain. */
static int read_put(PyObject *const *from, Put *put) {
    Head *head = &put->head;
    if (!read_integer(from[POSITION], &put->position) || !read_integer(from[BODY_MAX], &put->body_max) ||
        !read_integer(from[PLACE_QUEUE_OFFSET], &put->queue_offset) ||
        !read_integer(from[PLACE_PHYSICAL_OFFSET], &put->physical_offset) ||
        !read_integer(from[PLACE_STORED_MS], &put->stored_ms))
        return 0;
    if (!read_text(from[TOPIC], &head->topic, &head->topic_bytes) ||
        !read_text(from[PROPERTIES], &put->properties, &put->properties_bytes) ||
        !read_bytes(from[BODY], &put->body, &put->body_bytes) || !read_integer(from[QUEUE_ID], &head->queue_id) ||
        !read_integer(from[FLAG], &put->flag) || !read_integer(from[SYS_FLAG], &head->sys_flag) ||
        !read_integer(from[BORN_MS], &head->born_ms) ||
        !read_host(from[BORN_HOST], &head->born_address, &head->born_bytes, &head->born_port) ||
        !read_host(from[STORE_HOST], &head->store_address, &head->store_bytes, &head->store_port) ||
        !read_integer(from[RECONSUME_TIMES], &head->reconsume_times) ||
        !read_integer(from[PREPARED_AT], &head->prepared_at))
        return 0;
    head->sys_flag &= ~(long long)(BORN_V6 | STORE_V6);
    head->sys_flag |= (head->born_bytes == IPV6_BYTES ? BORN_V6 : 0) | (head->store_bytes == IPV6_BYTES ? STORE_V6 : 0);
    long long transaction = head->sys_flag & TRANSACTION_MASK;
    return is_plain(head) && is_int32(put->flag) && head->queue_id >= 0 && transaction != TRANSACTION_PREPARED &&
           transaction != TRANSACTION_MASK && put->body_bytes <= put->body_max && put->body_bytes <= INT32_MAX / 2 &&
           put->properties_bytes <= PROPERTIES_BYTES_MAX && is_storable(head->topic, head->topic_bytes) &&
           is_undelayed(put->properties, put->properties_bytes);
}

/* See Core.store in formats/columns.py. Copies a whole record, so that `tornlog probe` sees few writes to the map. */
PyObject *store_record(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    (void)module;
    Put put;
    Py_buffer pages;
    uint8_t *record;
    if (count != ARGUMENTS)
        return PyErr_Format(PyExc_TypeError, "expected %d arguments, found %zd", ARGUMENTS, count);
    if (!read_put(arguments, &put))
        return PyLong_FromLong(0);
    if (PyObject_GetBuffer(arguments[PAGES], &pages, PyBUF_WRITABLE) < 0)
        return NULL;
    Py_ssize_t bytes = size_of(&put.head, put.body_bytes, put.properties_bytes);
    if (put.position < 0 || put.position > pages.len || bytes + BLANK_BYTES > pages.len - put.position) {
        bytes = 0;
    } else if ((record = PyMem_Malloc((size_t)bytes)) == NULL) {
        bytes = -1;
    } else {
        const uint8_t *body = (const uint8_t *)put.body;
        uint8_t *to = begin_record(record, &put.head, put.flag, body, put.body_bytes, put.properties_bytes);
        copied(to, put.properties, put.properties_bytes);
        write_big_endian(record + QUEUE_OFFSET_AT, (uint64_t)put.queue_offset, 8);
        write_big_endian(record + PHYSICAL_OFFSET_AT, (uint64_t)put.physical_offset, 8);
        Py_ssize_t stored_at = STORED_AT + (put.head.born_bytes - IPV4_BYTES);
        write_big_endian(record + stored_at, (uint64_t)put.stored_ms, 8);
        copied((uint8_t *)pages.buf + put.position, record, bytes);
        PyMem_Free(record);
    }
    PyBuffer_Release(&pages);
    return bytes < 0 ? PyErr_NoMemory() : PyLong_FromSsize_t(bytes);
}

/* Result for invalid arguments: None if a number does not fit its field, else the exception stays set. */
static PyObject *refused(void) {
    if (!PyErr_ExceptionMatches(PyExc_OverflowError))
        return NULL;
    PyErr_Clear();
    Py_RETURN_NONE;
}

/* See Core.encode in formats/columns.py. */
PyObject *encode_record(PyObject *module, PyObject *args) {
    (void)module;
    Head head;
    const char *properties;
    Py_ssize_t properties_bytes;
    Py_buffer body;
    long long flag;
    if (!PyArg_ParseTuple(args, "y#y#y*LLLL(y#L)(y#L)LL", &head.topic, &head.topic_bytes, &properties, &properties_bytes,
                          &body, &head.queue_id, &flag, &head.sys_flag, &head.born_ms, &head.born_address,
                          &head.born_bytes, &head.born_port, &head.store_address, &head.store_bytes, &head.store_port,
                          &head.reconsume_times, &head.prepared_at))
        return refused();
    PyObject *record = NULL;
    if (!is_plain(&head) || !is_int32(flag) || properties_bytes > PROPERTIES_BYTES_MAX ||
        memchr(properties, 0, (size_t)properties_bytes) != NULL || body.len > INT32_MAX - PROPERTIES_BYTES_MAX - 1024) {
        record = Py_NewRef(Py_None);
    } else if ((record = PyByteArray_FromStringAndSize(NULL, size_of(&head, body.len, properties_bytes))) != NULL) {
        uint8_t *to = (uint8_t *)PyByteArray_AsString(record);
        copied(begin_record(to, &head, flag, body.buf, body.len, properties_bytes), properties, properties_bytes);
    }
    PyBuffer_Release(&body);
    return record;
}

/* One unit of a batch body. */
typedef struct {
    int32_t flag;
    const uint8_t *body, *properties;
    Py_ssize_t body_bytes, properties_bytes, bytes;
} Unit;

/* Reads the unit at a position. Returns 0 if its lengths do not fit. */
static int read_unit(const Py_buffer *units, Py_ssize_t at, Unit *unit) {
    const uint8_t *from = (const uint8_t *)units->buf + at;
    Py_ssize_t left = units->len - at;
    if (left < UNIT_BYTES_MIN)
        return 0;
    unit->bytes = i32(from);
    unit->flag = i32(from + 12);
    unit->body_bytes = i32(from + 16);
    if (unit->bytes < UNIT_BYTES_MIN || unit->bytes > left)
        return 0;
    if (unit->body_bytes < 0 || unit->body_bytes > unit->bytes - UNIT_BYTES_MIN)
        return 0;
    unit->body = from + 20;
    unit->properties = unit->body + unit->body_bytes + 2;
    unit->properties_bytes = from + unit->bytes - unit->properties;
    return (int16_t)(unit->properties[-2] << 8 | unit->properties[-1]) == unit->properties_bytes;
}

/* Returns whether a separator is needed between a unit's properties and the shared ones. */
static int is_parted(const Unit *unit, Py_ssize_t shared_bytes) {
    return unit->properties_bytes > 0 && shared_bytes > 0 && unit->properties[unit->properties_bytes - 1] != 2;
}

/* Appends the start of each record to a list. Returns their total size, 0 if one is not plain, -1 on an exception. */
static Py_ssize_t measure(const Py_buffer *units, const Head *head, const char *shared, Py_ssize_t shared_bytes,
                          PyObject *starts) {
    Py_ssize_t end = 0;
    Unit unit;
    if (memchr(shared, 0, (size_t)shared_bytes) != NULL)
        return 0;
    for (Py_ssize_t at = 0; at < units->len; at += unit.bytes) {
        if (!read_unit(units, at, &unit))
            return 0;
        Py_ssize_t properties_bytes = unit.properties_bytes + is_parted(&unit, shared_bytes) + shared_bytes;
        if (properties_bytes > PROPERTIES_BYTES_MAX ||
            memchr(unit.properties, 0, (size_t)unit.properties_bytes) != NULL)
            return 0;
        PyObject *start = PyLong_FromSsize_t(end);
        if (start == NULL || PyList_Append(starts, start) < 0) {
            Py_XDECREF(start);
            return -1;
        }
        Py_DECREF(start);
        end += size_of(head, unit.body_bytes, properties_bytes);
        if (end > INT32_MAX)
            return 0;
    }
    return end;
}

/* See Core.encode_batch in formats/columns.py. */
PyObject *encode_batch(PyObject *module, PyObject *args) {
    (void)module;
    Head head = {.prepared_at = 0};
    const char *shared;
    Py_ssize_t shared_bytes;
    Py_buffer units;
    if (!PyArg_ParseTuple(args, "y*y#y#LLL(y#L)(y#L)L", &units, &head.topic, &head.topic_bytes, &shared, &shared_bytes,
                          &head.queue_id, &head.sys_flag, &head.born_ms, &head.born_address, &head.born_bytes,
                          &head.born_port, &head.store_address, &head.store_bytes, &head.store_port,
                          &head.reconsume_times))
        return refused();
    PyObject *starts = PyList_New(0), *records = NULL, *result = NULL;
    Py_ssize_t bytes = -1;
    if (starts != NULL)
        bytes = is_plain(&head) ? measure(&units, &head, shared, shared_bytes, starts) : 0;
    if (bytes == 0)
        result = Py_NewRef(Py_None);
    if (bytes > 0 && (records = PyByteArray_FromStringAndSize(NULL, bytes)) != NULL) {
        uint8_t *to = (uint8_t *)PyByteArray_AsString(records);
        Unit unit;
        for (Py_ssize_t at = 0; at < units.len; at += unit.bytes) {
            read_unit(&units, at, &unit);
            int parted = is_parted(&unit, shared_bytes);
            Py_ssize_t properties_bytes = unit.properties_bytes + parted + shared_bytes;
            to = begin_record(to, &head, unit.flag, unit.body, unit.body_bytes, properties_bytes);
            to = copied(to, unit.properties, unit.properties_bytes);
            if (parted)
                *to++ = 2;
            to = copied(to, shared, shared_bytes);
        }
        PyObject *fixed = PyList_AsTuple(starts);
        if (fixed != NULL)
            result = PyTuple_Pack(2, records, fixed);
        Py_XDECREF(fixed);
    }
    Py_XDECREF(starts);
    Py_XDECREF(records);
    PyBuffer_Release(&units);
    return result;
}

/* See Core.place in formats/columns.py. */
PyObject *place_records(PyObject *module, PyObject *args) {
    (void)module;
    Py_buffer records;
    PyObject *starts;
    long long queue_offset, physical_offset, stored_ms;
    int born_v6;
    if (!PyArg_ParseTuple(args, "w*O!LLLp", &records, &PyTuple_Type, &starts, &queue_offset, &physical_offset, &stored_ms,
                          &born_v6))
        return NULL;
    Py_ssize_t stored_at = STORED_AT + (born_v6 ? IPV6_EXTRA_BYTES : 0), count = PyTuple_Size(starts);
    PyObject *result = Py_None;
    for (Py_ssize_t index = 0; index < count; index++) {
        Py_ssize_t at = PyLong_AsSsize_t(PyTuple_GetItem(starts, index));
        if (at < 0 || records.len - at < stored_at + 8) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "a start is not in front of a record");
            result = NULL;
            break;
        }
        uint8_t *record = (uint8_t *)records.buf + at;
        write_big_endian(record + QUEUE_OFFSET_AT, (uint64_t)(queue_offset + index), 8);
        write_big_endian(record + PHYSICAL_OFFSET_AT, (uint64_t)(physical_offset + at), 8);
        write_big_endian(record + stored_at, (uint64_t)stored_ms, 8);
    }
    PyBuffer_Release(&records);
    return Py_XNewRef(result);
}
