/* A black box for the files of one folder: what was written to them, and what was synced.
 *
 * Loaded into the broker's process by LD_PRELOAD. Every call that changes a file below BLACKBOX_FOLDER
 * is passed on, and noted in BLACKBOX_LOG: a write before it is carried out (it may reach the disk
 * from then on), a sync after it succeeded (only from then on it counts). The log survives the
 * SIGKILL that stands for the power cut in the page cache; tests/crash/power.py reads it.
 *
 * While the file BLACKBOX_FAULT exists, its name ending in "full" or "broken", room cannot be
 * reserved (ENOSPC), or writes and syncs fail (EIO); ending in "slow", a sync takes 200 ms.
 *
 * With BLACKBOX_DEAF set syncs are not noted: the broker then lies to its clients, which the tests
 * must find out. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* One record: this header, `length` bytes of data, for RENAME two names that end in NUL. */
struct record {
    uint8_t kind;
    uint8_t unused[7];
    uint64_t inode;
    uint64_t offset;
    uint64_t length;
};

enum { CREATE = 1, WRITE = 2, SYNC = 3, SIZE = 4, RENAME = 5, REMOVE = 6, SYNC_FOLDER = 7 };
#define DESCRIPTORS 65536

static const char *folder;
static size_t folder_length;
static int log_fd = -1;
static int deaf;
static const char *fault;
static char watched[DESCRIPTORS]; /* 1 a file, 2 the folder itself */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void) {
    const char *log_path = getenv("BLACKBOX_LOG");
    folder = getenv("BLACKBOX_FOLDER");
    if (!folder || !log_path) return;
    folder_length = strlen(folder);
    fault = getenv("BLACKBOX_FAULT");
    deaf = getenv("BLACKBOX_DEAF") != NULL;
    log_fd = REAL(open)(log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (log_fd < 0) abort();
}

static void note(int kind, uint64_t inode, uint64_t offset, const void *data, size_t length) {
    struct record head = {.kind = (uint8_t)kind, .inode = inode, .offset = offset, .length = length};
    struct iovec parts[2] = {{&head, sizeof head}, {(void *)data, data ? length : 0}};
    pthread_mutex_lock(&turn);
    ssize_t want = (ssize_t)(sizeof head + parts[1].iov_len);
    if (REAL(writev)(log_fd, parts, 2) != want) abort();
    pthread_mutex_unlock(&turn);
}

static uint64_t inode_of(int fd) {
    struct stat status;
    return fstat(fd, &status) == 0 ? (uint64_t)status.st_ino : 0;
}

static int has_fault(const char *kind) {
    size_t length = fault ? strlen(fault) : 0;
    return length > strlen(kind) && !strcmp(fault + length - strlen(kind), kind) &&
           access(fault, F_OK) == 0;
}

static int is_file(int fd) { return fd >= 0 && fd < DESCRIPTORS && watched[fd] == 1; }

/* The name within the folder, or NULL for paths elsewhere. "" is the folder itself. */
static const char *name_of(const char *path) {
    if (!folder || log_fd < 0 || strncmp(path, folder, folder_length)) return NULL;
    if (path[folder_length] == 0) return "";
    return path[folder_length] == '/' ? path + folder_length + 1 : NULL;
}

static int opened(int fd, const char *path, int flags, int existed) {
    const char *name = name_of(path);
    if (fd < 0 || fd >= DESCRIPTORS || !name) return fd;
    watched[fd] = *name ? 1 : 2;
    if (*name && (flags & O_CREAT) && !existed) note(CREATE, inode_of(fd), 0, name, strlen(name));
    if (*name && (flags & O_TRUNC)) note(SIZE, inode_of(fd), 0, NULL, 0);
    return fd;
}

#define OPEN(function)                                                          \
    int function(const char *path, int flags, ...) {                            \
        mode_t mode = 0;                                                        \
        if (flags & (O_CREAT | O_TMPFILE)) {                                    \
            va_list rest;                                                       \
            va_start(rest, flags);                                              \
            mode = va_arg(rest, mode_t);                                        \
            va_end(rest);                                                       \
        }                                                                       \
        int existed = access(path, F_OK) == 0;                                  \
        return opened(REAL(function)(path, flags, mode), path, flags, existed); \
    }
OPEN(open)
OPEN(open64)

int close(int fd) {
    if (fd >= 0 && fd < DESCRIPTORS) watched[fd] = 0;
    return REAL(close)(fd);
}

#define PWRITE(function)                                                              \
    ssize_t function(int fd, const void *data, size_t count, __off64_t offset) {      \
        if (is_file(fd)) note(WRITE, inode_of(fd), (uint64_t)offset, data, count);    \
        return REAL(function)(fd, data, count, offset);                               \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

/* Ways of writing that the black box does not know would make it forget: better to stop. */
ssize_t write(int fd, const void *data, size_t count) {
    if (is_file(fd)) abort();
    return REAL(write)(fd, data, count);
}
ssize_t pwritev(int fd, const struct iovec *parts, int count, __off_t offset) {
    if (is_file(fd)) abort();
    return REAL(pwritev)(fd, parts, count, offset);
}

#define SYNCHRONISE(function)                                                         \
    int function(int fd) {                                                            \
        if (fd >= 0 && fd < DESCRIPTORS && watched[fd] && has_fault("broken")) {      \
            errno = EIO;                                                              \
            return -1;                                                                \
        }                                                                             \
        if (fd >= 0 && fd < DESCRIPTORS && watched[fd] && has_fault("slow")) {        \
            usleep(200000);                                                           \
        }                                                                             \
        int result = REAL(function)(fd);                                              \
        if (result == 0 && !deaf && fd >= 0 && fd < DESCRIPTORS) {                    \
            if (watched[fd] == 1) note(SYNC, inode_of(fd), 0, NULL, 0);               \
            if (watched[fd] == 2) note(SYNC_FOLDER, 0, 0, NULL, 0);                   \
        }                                                                             \
        return result;                                                                \
    }
SYNCHRONISE(fsync)
SYNCHRONISE(fdatasync)

#define TRUNCATE(function)                                                            \
    int function(int fd, __off64_t size) {                                            \
        if (is_file(fd)) note(SIZE, inode_of(fd), (uint64_t)size, NULL, 0);           \
        return REAL(function)(fd, size);                                              \
    }
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)

#define ALLOCATE(function)                                                            \
    int function(int fd, __off64_t offset, __off64_t length) {                        \
        if (is_file(fd) && has_fault("full")) return ENOSPC;                          \
        int result = REAL(function)(fd, offset, length);                              \
        struct stat status;                                                           \
        if (result == 0 && is_file(fd) && fstat(fd, &status) == 0)                    \
            note(SIZE, (uint64_t)status.st_ino, (uint64_t)status.st_size, NULL, 0);   \
        return result;                                                                \
    }
ALLOCATE(posix_fallocate)
ALLOCATE(posix_fallocate64)

int rename(const char *old, const char *new) {
    const char *from = name_of(old), *to = name_of(new);
    if (from && to) {
        char both[2 * PATH_MAX];
        size_t first = strlen(from) + 1, second = strlen(to) + 1;
        memcpy(both, from, first);
        memcpy(both + first, to, second);
        note(RENAME, 0, 0, both, first + second);
    }
    return REAL(rename)(old, new);
}

int unlink(const char *path) {
    const char *name = name_of(path);
    if (name && *name) note(REMOVE, 0, 0, name, strlen(name));
    return REAL(unlink)(path);
}
