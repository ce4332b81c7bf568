/* A plain record: its parts, as read from the log. scan.c defines which records are plain. */

#ifndef TORNLOG_RECORD_H
#define TORNLOG_RECORD_H

#include "crc32.h"
#include <stdint.h>
#include <string.h>

enum { KEY_SEPARATOR = ' ' };

typedef struct {
    const uint8_t *at;
    int64_t bytes;
} Span;

typedef struct {
    int64_t offset, size, queue_offset, stored_ms;
    int32_t sys_flag;
    uint32_t crc;
    const uint8_t *queue_id; /* its four bytes */
    Span body, topic, tags, keys, unique_key, light; /* the last four are empty where a record has none */
} Record;

/* Returns whether the record at `at` has valid sizes and position, no NUL in its properties and no light queue. */
int read_record(Span log, int64_t at, int64_t base_offset, Record *record);

static inline int has_its_body(const Record *record) {
    return (checksum(record->body.at, (size_t)record->body.bytes) & 0x7FFFFFFF) == record->crc;
}

/* Removes the part before the next separator, or the rest, from a text. Returns whether there was any. */
static inline int take_piece(Span *text, int separator, Span *piece) {
    if (text->bytes == 0)
        return 0;
    const uint8_t *stop = memchr(text->at, separator, (size_t)text->bytes);
    *piece = (Span){text->at, stop == NULL ? text->bytes : stop - text->at};
    int64_t taken = stop == NULL ? text->bytes : piece->bytes + 1;
    *text = (Span){text->at + taken, text->bytes - taken};
    return 1;
}

#endif
