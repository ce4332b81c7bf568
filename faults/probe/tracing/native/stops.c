/* The recorder's C core: makes the same requests about stopped threads as the ctypes code, but faster.
   What its functions do: Core in tracing/core.py. What is to be done about a stop is none of its business. */

#include "stops.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { INTERFACE = 3 }; /* version of the functions; must equal the one in native/__init__.py */
enum { STEP = 9, GET_REGISTERS = 0x4204, SET_REGISTERS = 0x4205, GET_MASK = 0x420A, SET_MASK = 0x420B };
enum { SIGNAL_INFO = 0x4202, CALL_INFO = 0x420E };
enum { WORDS_MAX = 128, FACTS_BYTES = 160 };

long request(int what, int thread, uintptr_t address, uintptr_t data) {
    return ptrace(what, thread, (void *)address, (void *)data);
}

PyObject *failed(PyObject *module, int thread) {
    if (errno != ESRCH) return PyErr_SetFromErrno(PyExc_OSError);
    PyObject *gone = PyObject_GetAttrString(module, "gone"), *number = PyLong_FromLong(thread);
    if (gone != NULL && number != NULL) PyErr_SetObject(gone, number);
    Py_XDECREF(gone);
    Py_XDECREF(number);
    return NULL;
}

int next_stop(int thread, int *status) {
    int found;
    Py_BEGIN_ALLOW_THREADS
    found = waitpid(thread, status, ALL_CHILDREN);
    Py_END_ALLOW_THREADS
    return found < 0 && errno == EINTR ? 0 : found;
}

static PyObject *wait_stop(PyObject *module, PyObject *args) {
    int thread, status = 0;
    if (!PyArg_ParseTuple(args, "i", &thread)) return NULL;
    int found = next_stop(thread, &status);
    return found < 0 ? failed(module, thread) : Py_BuildValue("ii", found, status);
}

static PyObject *go_on(PyObject *module, PyObject *args) {
    int thread, how, number;
    if (!PyArg_ParseTuple(args, "iii", &thread, &how, &number)) return NULL;
    if (request(how, thread, 0, (uintptr_t)number) < 0) return failed(module, thread);
    Py_RETURN_NONE;
}

/* struct ptrace_syscall_info of linux/ptrace.h: at the entry of a call, and at its exit. */
typedef struct {
    uint8_t kind, padding[3];
    uint32_t architecture;
    uint64_t behind, stack;
    union {
        struct { uint64_t number, arguments[6], data; } entered;
        struct { int64_t result; uint8_t is_error; } left;
    } call;
} CallInfo;

/* Read that structure for a thread, the only argument. Return 0, or -1 with an exception. */
static int call_info(PyObject *module, PyObject *args, CallInfo *info) {
    int thread;
    if (!PyArg_ParseTuple(args, "i", &thread)) return -1;
    memset(info, 0, sizeof *info);
    if (request(CALL_INFO, thread, sizeof *info, (uintptr_t)info) >= 0) return 0;
    failed(module, thread);
    return -1;
}

static PyObject *entered(PyObject *module, PyObject *args) {
    CallInfo info;
    if (call_info(module, args, &info) < 0) return NULL;
    const uint64_t *a = info.call.entered.arguments;
    return Py_BuildValue("K(KKKKKK)KK", info.call.entered.number, a[0], a[1], a[2], a[3], a[4], a[5], info.behind, info.stack);
}

static PyObject *result(PyObject *module, PyObject *args) {
    CallInfo info;
    if (call_info(module, args, &info) < 0) return NULL;
    return PyLong_FromLongLong(info.call.left.result);
}

static PyObject *memory_fault(PyObject *module, PyObject *args) {
    int thread;
    siginfo_t info;
    if (!PyArg_ParseTuple(args, "i", &thread)) return NULL;
    if (request(SIGNAL_INFO, thread, 0, (uintptr_t)&info) < 0) return failed(module, thread);
    return Py_BuildValue("Ki", (unsigned long long)(uintptr_t)info.si_addr, info.si_code);
}

static PyObject *block_signals(PyObject *module, PyObject *args) {
    int thread;
    unsigned long long more;
    uint64_t before, mask;
    if (!PyArg_ParseTuple(args, "iK", &thread, &more)) return NULL;
    if (request(GET_MASK, thread, sizeof before, (uintptr_t)&before) < 0) return failed(module, thread);
    mask = before | more;
    if (request(SET_MASK, thread, sizeof mask, (uintptr_t)&mask) < 0) return failed(module, thread);
    return PyLong_FromUnsignedLongLong(before);
}

static PyObject *set_mask(PyObject *module, PyObject *args) {
    int thread;
    unsigned long long wanted;
    if (!PyArg_ParseTuple(args, "iK", &thread, &wanted)) return NULL;
    uint64_t mask = wanted;
    if (request(SET_MASK, thread, sizeof mask, (uintptr_t)&mask) < 0) return failed(module, thread);
    Py_RETURN_NONE;
}

static PyObject *registers(PyObject *module, PyObject *args) {
    int thread, kind;
    uint64_t words[WORDS_MAX];
    struct iovec all = {words, sizeof words};
    if (!PyArg_ParseTuple(args, "ii", &thread, &kind)) return NULL;
    if (request(GET_REGISTERS, thread, (uintptr_t)kind, (uintptr_t)&all) < 0) return failed(module, thread);
    return PyBytes_FromStringAndSize((char *)words, (Py_ssize_t)all.iov_len);
}

/* Copy registers and replace some of them by index. Return 0, or -1 with an exception. */
static int changed_registers(uint64_t *words, const char *before, Py_ssize_t size, PyObject *changed) {
    PyObject *index, *word;
    Py_ssize_t place = 0;
    if (size > (Py_ssize_t)(WORDS_MAX * sizeof *words)) {
        PyErr_Format(PyExc_ValueError, "registers: expected at most %d words, found %zd bytes", WORDS_MAX, size);
        return -1;
    }
    memcpy(words, before, (size_t)size);
    while (PyDict_Next(changed, &place, &index, &word)) {
        size_t at = PyLong_AsSize_t(index);
        if (at == (size_t)-1 && PyErr_Occurred()) return -1;
        if (at >= (size_t)size / sizeof *words) {
            PyErr_Format(PyExc_IndexError, "register %zu of %zd bytes", at, size);
            return -1;
        }
        words[at] = PyLong_AsUnsignedLongLong(word);
        if (words[at] == UINT64_MAX && PyErr_Occurred()) return -1;
    }
    return 0;
}

static PyObject *set_registers(PyObject *module, PyObject *args) {
    int thread, kind;
    const char *before;
    Py_ssize_t size;
    PyObject *changed;
    uint64_t words[WORDS_MAX];
    if (!PyArg_ParseTuple(args, "iiy#O!", &thread, &kind, &before, &size, &PyDict_Type, &changed)) return NULL;
    if (changed_registers(words, before, size, changed) < 0) return NULL;
    struct iovec all = {words, (size_t)size};
    if (request(SET_REGISTERS, thread, (uintptr_t)kind, (uintptr_t)&all) < 0) return failed(module, thread);
    Py_RETURN_NONE;
}

static PyObject *step(PyObject *module, PyObject *args) {
    int thread, status = 0, found;
    if (!PyArg_ParseTuple(args, "i", &thread)) return NULL;
    if (request(STEP, thread, 0, 0) < 0) return failed(module, thread);
    found = next_stop(thread, &status);
    return found < 0 ? failed(module, thread) : PyLong_FromLong(found ? status : 0);
}

static PyObject *read_memory(PyObject *module, PyObject *args) {
    int thread;
    unsigned long long address;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "iKn", &thread, &address, &size)) return NULL;
    PyObject *data = PyBytes_FromStringAndSize(NULL, size);
    if (data == NULL) return NULL;
    struct iovec here = {PyBytes_AsString(data), (size_t)size}, there = {(void *)(uintptr_t)address, (size_t)size};
    ssize_t count = process_vm_readv(thread, &here, 1, &there, 1, 0);
    if (count == size) return data;
    PyObject *part = count < 0 ? failed(module, thread) : PyBytes_FromStringAndSize(PyBytes_AsString(data), count);
    Py_DECREF(data);
    return part;
}

/* Return the number after a name at the start of a line, or -1 if there is no such line. */
static long long fact(const char *text, const char *name, int base) {
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, strlen(name)) == 0) return strtoll(line + strlen(name), NULL, base);
    }
    return -1;
}

static PyObject *descriptor_facts(PyObject *module, PyObject *args) {
    (void)module;
    int descriptor;
    char text[FACTS_BYTES + 1];
    if (!PyArg_ParseTuple(args, "i", &descriptor)) return NULL;
    ssize_t size = pread(descriptor, text, FACTS_BYTES, 0);
    if (size < 0) return PyErr_SetFromErrno(PyExc_OSError);
    text[size] = 0;
    return Py_BuildValue(
        "LLLL", fact(text, "pos:", 10), fact(text, "flags:", 8), fact(text, "mnt_id:", 10), fact(text, "ino:", 10));
}

static PyObject *difference(PyObject *module, PyObject *args) {
    (void)module;
    const char *old, *new;
    Py_ssize_t end, size;
    if (!PyArg_ParseTuple(args, "y#y#", &old, &end, &new, &size)) return NULL;
    if (end != size) {
        PyErr_Format(PyExc_ValueError, "contents: expected equal sizes, found %zd and %zd bytes", end, size);
        return NULL;
    }
    if (memcmp(old, new, (size_t)size) == 0) Py_RETURN_NONE;
    Py_ssize_t start = 0;
    while (old[start] == new[start]) start++;
    while (old[end - 1] == new[end - 1]) end--;
    return Py_BuildValue("nn", start, end);
}

static PyMethodDef functions[] = {
    {"wait", wait_stop, METH_VARARGS, NULL},
    {"execute_plain_call", execute_plain_call, METH_VARARGS, NULL},
    {"wait_after_plain_calls", wait_after_plain_calls, METH_VARARGS, NULL},
    {"go_on", go_on, METH_VARARGS, NULL},
    {"entered", entered, METH_VARARGS, NULL},
    {"result", result, METH_VARARGS, NULL},
    {"memory_fault", memory_fault, METH_VARARGS, NULL},
    {"block_signals", block_signals, METH_VARARGS, NULL},
    {"set_mask", set_mask, METH_VARARGS, NULL},
    {"registers", registers, METH_VARARGS, NULL},
    {"set_registers", set_registers, METH_VARARGS, NULL},
    {"step", step, METH_VARARGS, NULL},
    {"read_memory", read_memory, METH_VARARGS, NULL},
    {"descriptor_facts", descriptor_facts, METH_VARARGS, NULL},
    {"difference", difference, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int begin(PyObject *module) {
    if (PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0) return -1;
    return PyModule_AddObjectRef(module, "gone", PyExc_ProcessLookupError);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, begin}, {0, NULL}};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "_stops", .m_methods = functions, .m_slots = slots};

PyMODINIT_FUNC PyInit__stops(void) { return PyModuleDef_Init(&definition); }
