"""Column comments for `DESCRIBE`: explain each column of the source."""

_OF_A_RECORD = {
    "physical_offset": "offset in the log of the record's first byte",
    "damage": "the wrong field, with the expected and the found value; null without damage",
}
_OF_A_QUEUE = {"topic": "topic of the message", "queue_id": "number of the queue in its topic"}
_PLACE = {
    "store": "directory of the store, as the options name it",
    "file": "path of the file",
    "position": "offset in the file, in bytes",
}

COMMENTS: dict[str, dict[str, str]] = {
    "messages": {
        **_PLACE,
        **_OF_A_QUEUE,
        **_OF_A_RECORD,
        "size": "length of the record in bytes",
        "queue_offset": "place in the queue, counted in messages",
        "sys_flag": "bits for the encoding of the record and its part in a transaction",
        "flag": "a number set by the producer",
        "born_timestamp_ms": "the producer's clock, milliseconds since 1970 in UTC",
        "born_time": "born_timestamp_ms as a timestamp; null outside of the years 1 to 9999",
        "born_host": "address|port of the producer",
        "store_timestamp_ms": "the broker's clock, milliseconds since 1970 in UTC",
        "store_time": "store_timestamp_ms as a timestamp; null outside of the years 1 to 9999",
        "store_host": "address|port of the broker",
        "reconsume_times": "number of times that consumers sent it back",
        "prepared_transaction_offset": "offset in the log of the prepared record, for messages in transactions",
        "body_crc": "CRC-32 of the stored body, unsigned",
        "properties": "properties by name",
        "tags": "the property TAGS; null without",
        "keys": "the keys that the producer named; null without",
        "body": "the stored body",
        "is_proven": "false if the record was found by a search after damage and its queue has no entry for it",
        "tags_code": "the tags code of its queue entry: hash of the tag, or delivery time",
        "key_hashes": "hashes of its keys in the index",
        "light_places": "its topic, queue_id and queue_offset in each of its light queues",
    },
    "queue_entries": {
        **_PLACE,
        **_OF_A_QUEUE,
        **_OF_A_RECORD,
        "queue_offset": "number of the entry in its queue",
        "size": "length of the record in bytes, according to the entry",
        "tags_code": "hash of the tag, delivery time of a delayed message, or address in the queue's extension",
        "is_blank": "whether the entry only fills the place of an expired one",
    },
    "index_entries": {
        **_PLACE,
        **_OF_A_RECORD,
        "number": "number of the entry in its file, from 1 on",
        "key_hash": "hash of topic and key",
        "time_diff_s": "seconds from the file's first record to this one",
        "previous": "number of the entry before it in its slot, 0 if there is none",
        "begin_timestamp_ms": "store time of the file's first record, milliseconds since 1970 in UTC",
    },
    "checkpoint": {
        "store": _PLACE["store"],
        "file": _PLACE["file"],
        "physic_msg_timestamp_ms": "store time up to which the log is durable",
        "logics_msg_timestamp_ms": "store time up to which queues are durable",
        "index_msg_timestamp_ms": "store time up to which the index is durable",
        "damage": _OF_A_RECORD["damage"],
    },
}
