/* Transactions: what transactions.py is to the programs in Python. The same transactions, the same breaches.
 *
 * A program defines the four functions below, and includes this file once.
 */
#ifndef TRANSACTIONS_H
#define TRANSACTIONS_H

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRANSACTIONS = 3, ROWS = 8, VALUE_BYTES = 100, PATH_MAX_BYTES = 4096 };

/* Makes it empty in the working directory. */
static void make(const char *setting);
/* Commits, and calls promise() after each transaction. */
static void commit(const char *setting);
/* Opens it as the next user would, counts the rows of each transaction, and writes to it. Calls unusable() if it cannot. */
static void count(const char *directory, int rows[TRANSACTIONS]);
/* Prints name and version. */
static void print_version(void);

static jmp_buf check_failed;
static int is_check;

/* Ends a check, or the program, with a kind of breach and a reason. */
static void broken(const char *kind, const char *what, const char *why) {
    if (!is_check) {
        fprintf(stderr, "%s: %s\n", what, why);
        exit(1);
    }
    printf("{\"broken\": [\"%s: ", kind);
    for (const char *text = what; text; text = text == what ? why : NULL) {
        if (text == why) printf(": ");
        for (const char *at = text; *at; at++)
            if (*at >= ' ' && *at != '"' && *at != '\\') putchar(*at);
    }
    printf("\"]}\n");
    longjmp(check_failed, 1);
}

/* It cannot be opened, or says itself that it is damaged. */
static void unusable(const char *what, const char *why) { broken("unusable", what, why); }

/* A value was never stored. */
static inline void wrong(const char *what, const char *why) { broken("wrong", what, why); }

static inline void key_of(int transaction, int row, char key[16]) { snprintf(key, 16, "k%d-%d", transaction, row); }

static inline void value_of(int transaction, char value[VALUE_BYTES]) { memset(value, transaction, VALUE_BYTES); }

static inline int is_value(const void *found, size_t bytes, int transaction) {
    char value[VALUE_BYTES];
    value_of(transaction, value);
    return bytes == VALUE_BYTES && memcmp(found, value, VALUE_BYTES) == 0;
}

static inline void promise(int transaction) {
    printf("%d\n", transaction);
    fflush(stdout);
}

/* Answers one line of JSON. The harness puts no quotes into paths, and only numbers are promised. */
static void answer(char *line) {
    static const char before[] = "\"directory\": \"";
    char *directory = strstr(line, before), *end = directory ? strchr(directory + sizeof before - 1, '"') : NULL;
    if (!end) {
        fprintf(stderr, "expected a line with a directory, found %s", line);
        exit(1);
    }
    int promised = 0, rows[TRANSACTIONS] = {0};
    for (char *at = strchr(end, '['); at && *at; at++)
        if (*at >= '1' && *at <= '9') promised = *at - '0';
    *end = 0;
    if (setjmp(check_failed)) return;
    count(directory + sizeof before - 1, rows);
    printf("{\"broken\": [");
    const char *comma = "";
    for (int number = 1; number <= TRANSACTIONS; number++)
        if (rows[number - 1] != 0 && rows[number - 1] != ROWS) {
            printf("%s\"part: of transaction %d there are %d rows of %d\"", comma, number, rows[number - 1], ROWS);
            comma = ", ";
        }
    for (int number = 1; number <= promised; number++)
        if (rows[number - 1] == 0) {
            printf("%s\"lost: transaction %d was promised\"", comma, number);
            comma = ", ";
        }
    printf("]}\n");
}

int main(int arguments, char **argument) {
    static char line[2 * PATH_MAX_BYTES];
    if (arguments == 2 && !strcmp(argument[1], "check")) {
        is_check = 1;
        while (fgets(line, sizeof line, stdin)) {
            answer(line);
            fflush(stdout);
        }
    } else if (arguments == 2 && !strcmp(argument[1], "version")) {
        print_version();
    } else if (arguments == 3 && !strcmp(argument[1], "make")) {
        make(argument[2]);
    } else if (arguments == 3 && !strcmp(argument[1], "write")) {
        commit(argument[2]);
    } else {
        fprintf(stderr, "expected write, make, check or version\n");
        return 1;
    }
    return 0;
}

#endif
