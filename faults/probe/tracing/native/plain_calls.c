/* Plain calls: write, pwrite64, fsync and fdatasync, executed by the recorder on behalf of a stopped thread.

   A call that the thread executes itself stops it twice, before and after. Here the recorder executes the call on a copy
   of the thread's descriptor, which shares position, flags and write-back errors with it. Then the recorder sets the
   result and lets the thread skip the call. A call that could behave differently in the recorder is left to the thread.
   The interface is in tracing/core.py, the recording in tracing/plain_calls.py. */

#include "stops.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

#if defined(__x86_64__)

enum { AT_CALL = 0x7F | SIGTRAP << 8 | 7 << 16 }; /* wait status at a call that the seccomp filter selects */
enum { ARGUMENT_3 = 7, RESULT = 10, ARGUMENT_2 = 12, ARGUMENT_1, ARGUMENT_0, NUMBER, REGISTERS };
/* Indexes in struct user_regs_struct: r10, rax, rdx, rsi, rdi, orig_rax. Later registers are slow to set. */
enum { GET_REGISTERS = 0x4204, SET_REGISTERS = 0x4205, GENERAL = 1 };
enum { CALLS_MAX = 32, CALL_BYTES_MAX = 1 << 26 };
enum { BYTES_MAX = 1 << 24, MILLISECONDS_MAX = 20 }; /* then Python records the calls and checks its time limit */

/* A stop of a thread. descriptor: our copy of the thread's descriptor. */
typedef struct {
    int thread, status, is_plain, is_done, descriptor;
    uint64_t registers[REGISTERS];
    PyObject *target; /* borrowed: a recorded file, the name of an output, or the path of a directory */
    long long bytes;  /* of the recorded data */
} Call;

/* The arguments of the functions for Python, all borrowed. See tracing/core.py. */
typedef struct {
    PyObject *threads, *files, *outputs, *events;
} Tables;

enum { FAILED = -1, LEFT, DONE }; /* an exception, left to Python, finished */

static int is_sync(const Call *call) {
    return call->registers[NUMBER] == SYS_fsync || call->registers[NUMBER] == SYS_fdatasync;
}

static int add_event(const Call *call, const Tables *tables, long long at, int flags, PyObject *data) {
    unsigned long long number = call->registers[NUMBER];
    PyObject *event = Py_BuildValue("iKOLiO", call->thread, number, call->target, at, flags, data);
    if (event == NULL) return FAILED;
    int result = PyList_Append(tables->events, event);
    Py_DECREF(event);
    return result < 0 ? FAILED : DONE;
}

static int execute_sync(Call *call, const Tables *tables, int flags) {
    int result;
    Py_BEGIN_ALLOW_THREADS
    result = call->registers[NUMBER] == SYS_fsync ? fsync(call->descriptor) : fdatasync(call->descriptor);
    Py_END_ALLOW_THREADS
    if (result < 0 && errno == EINTR) return LEFT; /* by a signal to the recorder */
    call->registers[RESULT] = result < 0 ? (uint64_t)-errno : 0;
    return result < 0 ? DONE : add_event(call, tables, 0, flags, Py_None);
}

/* The target of the event is the directory's path. Python decides whether the directory is recorded. */
static int execute_directory_sync(Call *call, const Tables *tables, int flags) {
    char name[32], path[4096];
    PyOS_snprintf(name, sizeof name, "/proc/self/fd/%d", call->descriptor);
    ssize_t size = readlink(name, path, sizeof path);
    if (size < 0 || size == sizeof path) return LEFT; /* it may be truncated */
    call->target = PyBytes_FromStringAndSize(path, size);
    if (call->target == NULL) return FAILED;
    int result = execute_sync(call, tables, flags);
    Py_DECREF(call->target);
    return result;
}

/* Return the bytes that the thread writes. NULL without an exception: the call is left to the thread. */
static PyObject *written_data(Call *call) {
    unsigned long long size = call->registers[ARGUMENT_2];
    if (size == 0 || size > CALL_BYTES_MAX) return NULL;
    PyObject *data = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (data == NULL) return NULL;
    struct iovec here = {PyBytes_AsString(data), size}, there = {(void *)call->registers[ARGUMENT_1], size};
    if (process_vm_readv(call->thread, &here, 1, &there, 1, 0) == (ssize_t)size) return data;
    Py_DECREF(data);
    return NULL;
}

/* The outputs are read and ignored by the recorder. So a write that cannot fail or wait need not be executed. */
static int execute_output(Call *call, const Tables *tables, int flags) {
    struct pollfd ready = {call->descriptor, POLLOUT, 0};
    if (PyUnicode_CompareWithASCIIString(call->target, "asked") == 0) return LEFT; /* a rule applies to the next call */
    if (call->registers[NUMBER] != SYS_write || poll(&ready, 1, 0) != 1 || ready.revents != POLLOUT) return LEFT;
    PyObject *data = written_data(call);
    if (data == NULL) return PyErr_Occurred() ? FAILED : LEFT;
    call->registers[RESULT] = call->registers[ARGUMENT_2];
    call->bytes += PyBytes_Size(data);
    int result = add_event(call, tables, 0, flags, data);
    Py_DECREF(data);
    return result;
}

static int execute_write(Call *call, const Tables *tables, int flags) {
    struct rlimit limit;
    int is_placed = call->registers[NUMBER] == SYS_pwrite64;
    /* With O_DIRECT the buffer must be aligned, and with O_APPEND pwrite64 ignores its offset. */
    if (flags & O_DIRECT || (is_placed && flags & O_APPEND)) return LEFT;
    if (prlimit(call->thread, RLIMIT_FSIZE, NULL, &limit) < 0 || limit.rlim_cur != RLIM_INFINITY) return LEFT;
    PyObject *data = written_data(call);
    if (data == NULL) return PyErr_Occurred() ? FAILED : LEFT;
    const char *bytes = PyBytes_AsString(data);
    long long at = (long long)call->registers[ARGUMENT_3];
    ssize_t size = PyBytes_Size(data), count;
    Py_BEGIN_ALLOW_THREADS
    if (is_placed) count = pwrite(call->descriptor, bytes, (size_t)size, at);
    else count = write(call->descriptor, bytes, (size_t)size);
    Py_END_ALLOW_THREADS
    int result = LEFT; /* a call with an error has no effect, and the thread gets the same error */
    if (count > 0) {
        PyObject *part = count == size ? Py_NewRef(data) : PyBytes_FromStringAndSize(bytes, count);
        if (!is_placed) at = lseek(call->descriptor, 0, SEEK_CUR) - count;
        call->registers[RESULT] = (uint64_t)count;
        call->bytes += count;
        result = part == NULL ? FAILED : add_event(call, tables, at, flags, part);
        Py_XDECREF(part);
    }
    Py_DECREF(data);
    return result;
}

/* Find the target of the call and execute the call. *is_recorded: whether the thread skips the call. */
static int execute_on_target(Call *call, const Tables *tables, int *is_recorded) {
    struct statx status;
    /* fstat would ask for times, and the kernel would then store a new time with the next write: multigrain times. */
    if (statx(call->descriptor, "", AT_EMPTY_PATH, STATX_TYPE | STATX_INO, &status) < 0) return LEFT;
    unsigned long long device = makedev(status.stx_dev_major, status.stx_dev_minor);
    PyObject *key = Py_BuildValue("KK", device, (unsigned long long)status.stx_ino);
    if (key == NULL) return FAILED;
    PyObject *file = PyDict_GetItemWithError(tables->files, key);
    PyObject *output = file == NULL && !PyErr_Occurred() ? PyDict_GetItemWithError(tables->outputs, key) : NULL;
    Py_DECREF(key);
    if (PyErr_Occurred()) return FAILED;
    call->target = file != NULL ? file : output;
    if (call->target == NULL && !S_ISDIR(status.stx_mode)) return DONE;
    int flags = fcntl(call->descriptor, F_GETFL);
    if (flags < 0 || flags & O_PATH) return LEFT;
    *is_recorded = 1;
    if (call->target == NULL) return is_sync(call) ? execute_directory_sync(call, tables, flags) : LEFT;
    if (is_sync(call)) return file != NULL ? execute_sync(call, tables, flags) : LEFT;
    if ((flags & O_ACCMODE) == O_RDONLY) return LEFT;
    return file != NULL ? execute_write(call, tables, flags) : execute_output(call, tables, flags);
}

/* Read the registers of a thread that has stopped at a call. Return whether its call may be plain. */
static int may_be_plain(Call *call) {
    struct iovec registers = {call->registers, sizeof call->registers};
    if (request(GET_REGISTERS, call->thread, GENERAL, (uintptr_t)&registers) < 0) return 0;
    uint64_t number = call->registers[NUMBER];
    return number == SYS_write || number == SYS_pwrite64 || is_sync(call);
}

/* Execute the call at which a thread has stopped, if it is plain, and let the thread go on. */
static int execute(Call *call, const Tables *tables) {
    PyObject *key = PyLong_FromLong(call->thread);
    PyObject *process = key == NULL ? NULL : PyDict_GetItemWithError(tables->threads, key);
    Py_XDECREF(key);
    if (process == NULL) return PyErr_Occurred() ? FAILED : LEFT;
    call->descriptor = (int)syscall(SYS_pidfd_getfd, (int)PyLong_AsLong(process), (int)call->registers[ARGUMENT_0], 0);
    if (call->descriptor < 0) return PyErr_Occurred() ? FAILED : LEFT;
    int is_recorded = 0, result = execute_on_target(call, tables, &is_recorded);
    close(call->descriptor);
    if (result != DONE) return result;
    if (is_recorded) {
        struct iovec registers = {call->registers, sizeof call->registers};
        call->registers[NUMBER] = (uint64_t)-1;
        request(SET_REGISTERS, call->thread, GENERAL, (uintptr_t)&registers);
    }
    request(PTRACE_CONT, call->thread, 0, 0); /* if the thread was killed, the next wait reports its end */
    return DONE;
}

static long long milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

PyObject *execute_plain_call(PyObject *module, PyObject *args) {
    Tables tables = {0};
    Call call = {0};
    (void)module;
    if (!PyArg_ParseTuple(args, "iO!O!O!O!", &call.thread, &PyDict_Type, &tables.threads, &PyDict_Type, &tables.files,
                          &PyDict_Type, &tables.outputs, &PyList_Type, &tables.events))
        return NULL;
    int result = may_be_plain(&call) ? execute(&call, &tables) : LEFT;
    return result == FAILED ? NULL : PyBool_FromLong(result == DONE);
}

/* Wait for a stop, and collect it with all others that are due. Return their number, 0 after a signal, or -1. */
static int collect(Call *calls, int is_alone) {
    int count = 0, found = next_stop(-1, &calls[0].status);
    while (found > 0) {
        calls[count].thread = found;
        calls[count].is_plain = calls[count].status == AT_CALL && may_be_plain(&calls[count]);
        if (++count == CALLS_MAX || is_alone) return count;
        found = waitpid(-1, &calls[count].status, ALL_CHILDREN | WNOHANG);
    }
    return count ? count : found;
}

/* Execute the plain calls of some stopped threads: the writes first, because one sync can commit them all. */
static int execute_all(Call *calls, int count, const Tables *tables, PyObject *left) {
    for (int syncs = 0; syncs <= 1; syncs++)
        for (Call *call = calls; call < calls + count; call++)
            if (call->is_plain && is_sync(call) == syncs) {
                int result = execute(call, tables);
                if (result == FAILED) return FAILED;
                call->is_plain = 0;
                call->is_done = result == DONE;
            }
    for (Call *call = calls; call < calls + count; call++) {
        if (call->is_done) continue;
        PyObject *stop = Py_BuildValue("ii", call->thread, call->status);
        int result = stop == NULL ? FAILED : PyList_Append(left, stop);
        Py_XDECREF(stop);
        if (result < 0) return FAILED;
    }
    return DONE;
}

PyObject *wait_after_plain_calls(PyObject *module, PyObject *args) {
    Tables tables = {0};
    long long bytes = 0, end = milliseconds() + MILLISECONDS_MAX;
    if (!PyArg_ParseTuple(args, "O!O!O!O!", &PyDict_Type, &tables.threads, &PyDict_Type, &tables.files, &PyDict_Type,
                          &tables.outputs, &PyList_Type, &tables.events))
        return NULL;
    PyObject *left = PyList_New(0);
    while (left != NULL && PyList_Size(left) == 0 && bytes < BYTES_MAX && milliseconds() < end) {
        Call calls[CALLS_MAX];
        memset(calls, 0, sizeof calls);
        int count = collect(calls, PyDict_Size(tables.threads) <= 1);
        if (count < 0) failed(module, -1);
        if (count < 0 || execute_all(calls, count, &tables, left) == FAILED) Py_CLEAR(left);
        if (count == 0) break;
        for (int place = 0; place < count; place++) bytes += calls[place].bytes;
    }
    return left;
}

#else

PyObject *execute_plain_call(PyObject *module, PyObject *args) {
    (void)module;
    (void)args;
    Py_RETURN_FALSE;
}

PyObject *wait_after_plain_calls(PyObject *module, PyObject *args) {
    PyObject *threads, *files, *outputs, *events;
    int status = 0;
    if (!PyArg_ParseTuple(args, "OOOO", &threads, &files, &outputs, &events)) return NULL;
    int found = next_stop(-1, &status);
    if (found <= 0) return found < 0 ? failed(module, -1) : PyList_New(0);
    return Py_BuildValue("[(ii)]", found, status);
}

#endif
