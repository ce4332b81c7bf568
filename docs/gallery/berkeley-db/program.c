/* Berkeley DB: transactions under `sync`, `write-nosync` or `nosync`; `sync` also with `checksums`, or with `small-pages`;
 * `plain` is a file without an environment or a log, and a transaction is what a DB->sync ends. */
#include "transactions.h"

#include <db.h>
#include <unistd.h>

static const char FILE_NAME[] = "rows.db";
/* Recovery fills the rest of a log file with zeros, a write for each page: of 10 MiB, as by default, these are 2,560. */
enum { LOG_FILE_BYTES = 64 << 10, LOG_BUFFER_BYTES = 16 << 10, SECTOR_BYTES = 512 };

typedef struct {
    DB_ENV *environment; /* NULL for `plain` */
    DB *rows;
} Store;

static void need(int error, const char *call) {
    if (error) unusable(call, db_strerror(error));
}

static int is(const char *setting, const char *name) { return strcmp(setting, name) == 0; }

/* Checksums and the size of pages are the file's, and are given only when it is made. */
static DB *opened_file(DB_ENV *environment, const char *setting) {
    DB *rows;
    need(db_create(&rows, environment, 0), "db_create");
    if (is(setting, "checksums")) need(rows->set_flags(rows, DB_CHKSUM), "set_flags");
    if (is(setting, "small-pages")) need(rows->set_pagesize(rows, SECTOR_BYTES), "set_pagesize");
    need(rows->open(rows, NULL, FILE_NAME, NULL, DB_BTREE, environment ? DB_CREATE | DB_AUTO_COMMIT : DB_CREATE, 0600), "DB->open");
    return rows;
}

/* Opens it in the working directory as its manual says: with recovery, by one process at a time. */
static Store opened(const char *setting) {
    Store store = {0};
    if (!is(setting, "plain")) {
        DB_ENV *environment;
        need(db_env_create(&environment, 0), "db_env_create");
        if (is(setting, "nosync")) need(environment->set_flags(environment, DB_TXN_NOSYNC, 1), "set_flags");
        if (is(setting, "write-nosync")) need(environment->set_flags(environment, DB_TXN_WRITE_NOSYNC, 1), "set_flags");
        need(environment->set_lg_bsize(environment, LOG_BUFFER_BYTES), "set_lg_bsize");
        need(environment->set_lg_max(environment, LOG_FILE_BYTES), "set_lg_max");
        /* Private: the regions of lock, log and cache are in its own memory, and not in files that it maps. */
        u_int32_t flags = DB_CREATE | DB_RECOVER | DB_PRIVATE | DB_INIT_TXN | DB_INIT_LOG | DB_INIT_MPOOL | DB_INIT_LOCK;
        need(environment->open(environment, ".", flags, 0600), "DB_ENV->open");
        store.environment = environment;
    }
    store.rows = opened_file(store.environment, setting);
    return store;
}

static void close_all(Store store) {
    need(store.rows->close(store.rows, 0), "DB->close");
    if (store.environment) need(store.environment->close(store.environment, 0), "DB_ENV->close");
}

static void put(Store store, DB_TXN *transaction, const char *name, void *value, u_int32_t bytes) {
    DBT key = {.data = (void *)name, .size = strlen(name)}, content = {.data = value, .size = bytes};
    need(store.rows->put(store.rows, transaction, &key, &content, 0), "DB->put");
}

static void make(const char *setting) {
    Store store = opened(setting);
    put(store, NULL, "made", "", 0);
    close_all(store);
}

static void commit(const char *setting) {
    Store store = opened(setting);
    for (int number = 1; number <= TRANSACTIONS; number++) {
        DB_TXN *transaction = NULL;
        if (store.environment) need(store.environment->txn_begin(store.environment, NULL, &transaction, 0), "txn_begin");
        for (int row = 0; row < ROWS; row++) {
            char name[16], value[VALUE_BYTES];
            key_of(number, row, name);
            value_of(number, value);
            put(store, transaction, name, value, VALUE_BYTES);
        }
        need(transaction ? transaction->commit(transaction, 0) : store.rows->sync(store.rows, 0), "commit");
        promise(number);
        /* Pages are written in place now, while a transaction is still to come. */
        if (transaction && number == 2) need(store.environment->txn_checkpoint(store.environment, 0, 0, 0), "txn_checkpoint");
    }
    close_all(store);
}

static void count(const char *directory, int rows[TRANSACTIONS]) {
    if (chdir(directory)) unusable("chdir", directory);
    /* As the next user would: with an environment where there is a log, and without where there never was one. */
    Store store = opened(access("log.0000000001", F_OK) ? "plain" : "sync");
    for (int number = 1; number <= TRANSACTIONS; number++)
        for (int row = 0; row < ROWS; row++) {
            char name[16];
            key_of(number, row, name);
            DBT key = {.data = name, .size = strlen(name)}, content = {.flags = DB_DBT_MALLOC};
            int error = store.rows->get(store.rows, NULL, &key, &content, 0);
            if (error == DB_NOTFOUND) continue;
            need(error, "DB->get");
            if (!is_value(content.data, content.size, number)) wrong("DB->get", "another value");
            free(content.data);
            rows[number - 1]++;
        }
    put(store, NULL, "more", "", 0);
    close_all(store);
    DB *whole;
    need(db_create(&whole, NULL, 0), "db_create");
    need(whole->verify(whole, FILE_NAME, NULL, NULL, 0), "DB->verify"); /* which closes it */
}

static void print_version(void) {
    int major, minor, patch;
    db_version(&major, &minor, &patch);
    printf("Berkeley DB %d.%d.%d\n", major, minor, patch);
}
