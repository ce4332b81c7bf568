/* GDBM: `sync`, which calls gdbm_sync after each value, or `nosync`. A transaction is one value, as GDBM has none. */
#include "transactions.h"

#include <fcntl.h>
#include <gdbm.h>
#include <unistd.h>

static GDBM_FILE opened(const char *path) {
    GDBM_FILE file = gdbm_open(path, 0, GDBM_WRCREAT, 0600, NULL);
    if (!file) unusable("gdbm_open", gdbm_strerror(gdbm_errno));
    return file;
}

static void put(GDBM_FILE file, const char *name, const char *value, int bytes) {
    datum key = {(char *)name, (int)strlen(name)}, content = {(char *)value, bytes};
    if (gdbm_store(file, key, content, GDBM_REPLACE)) unusable("gdbm_store", gdbm_strerror(gdbm_errno));
}

/* One value has all rows of a transaction. */
static void value_for(int transaction, char value[ROWS * VALUE_BYTES]) { memset(value, transaction, ROWS * VALUE_BYTES); }

static void make(const char *setting) {
    (void)setting;
    gdbm_close(opened("db"));
}

static void commit(const char *setting) {
    GDBM_FILE file = opened("db");
    for (int transaction = 1; transaction <= TRANSACTIONS; transaction++) {
        char name[16], value[ROWS * VALUE_BYTES];
        key_of(transaction, 0, name);
        value_for(transaction, value);
        put(file, name, value, sizeof value);
        if (strcmp(setting, "nosync") && gdbm_sync(file)) unusable("gdbm_sync", gdbm_strerror(gdbm_errno));
        promise(transaction);
    }
    gdbm_close(file);
}

static void count(const char *directory, int rows[TRANSACTIONS]) {
    if (chdir(directory)) unusable("chdir", directory);
    GDBM_FILE file = opened("db");
    for (int transaction = 1; transaction <= TRANSACTIONS; transaction++) {
        char name[16], value[ROWS * VALUE_BYTES];
        key_of(transaction, 0, name);
        value_for(transaction, value);
        datum content = gdbm_fetch(file, (datum){name, (int)strlen(name)});
        if (!content.dptr && gdbm_errno != GDBM_ITEM_NOT_FOUND) unusable("gdbm_fetch", gdbm_strerror(gdbm_errno));
        if (content.dptr && (content.dsize != sizeof value || memcmp(content.dptr, value, sizeof value)))
            unusable("gdbm_fetch", "another value");
        rows[transaction - 1] = content.dptr ? ROWS : 0;
        free(content.dptr);
    }
    put(file, "more", "", 0);
    if (gdbm_close(file)) unusable("gdbm_close", gdbm_strerror(gdbm_errno));
}

static void print_version(void) { printf("%s\n", gdbm_version); }
