/* A black box for the files of some folders: what was written to them, and what was synced.
 *
 * Loaded into the broker's processes by LD_PRELOAD. Every call that changes a file in one of the
 * folders BLACKBOX_FOLDER (separated by colons) is passed on, and noted in BLACKBOX_LOG: a write before
 * it is carried out (it may reach the disk from then on), a sync after it succeeded (only from then on
 * it counts). Names are noted with that of their folder. The log survives the SIGKILL that stands for
 * the power cut in the page cache; tests/crash/power.py reads it. The lock file of LMDB is not watched:
 * it means nothing after a power cut.
 *
 * While a file of BLACKBOX_FAULT (separated by colons) exists, its name ending in "full" or "broken",
 * room cannot be reserved (ENOSPC), or writes and syncs fail (EIO); ending in "slow", a sync takes
 * 200 ms, ending in "stuck", as long as the file exists. The file gets a length once this was felt.
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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* One record: this header with the process that made it, `length` bytes of data, for RENAME two names that end in NUL. */
struct record {
    uint8_t kind;
    uint8_t unused[3];
    uint32_t process;
    uint64_t inode;
    uint64_t offset;
    uint64_t length;
};

enum { CREATE = 1, WRITE, SYNC, SIZE, RENAME, REMOVE, SYNC_FOLDER, SYNCED_WRITE };
#define DESCRIPTORS 65536
#define FOLDERS 4
#define FAULTS 4

static struct { char path[PATH_MAX]; size_t length, parent; } folders[FOLDERS];
static int folder_count;
static int log_fd = -1;
static int deaf;
static char faults[FAULTS][PATH_MAX];
static char watched[DESCRIPTORS]; /* 1 a file, 2 the folder itself, 3 a file whose writes sync */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void) {
    const char *log_path = getenv("BLACKBOX_LOG");
    const char *list = getenv("BLACKBOX_FOLDER");
    if (!list || !log_path) return;
    while (*list) {
        size_t length = strcspn(list, ":");
        if (folder_count == FOLDERS || length >= PATH_MAX) abort();
        memcpy(folders[folder_count].path, list, length);
        folders[folder_count].length = length;
        folders[folder_count].parent = strrchr(folders[folder_count].path, '/') + 1 - folders[folder_count].path;
        folder_count++;
        list += length + (list[length] == ':');
    }
    list = getenv("BLACKBOX_FAULT");
    for (int at = 0; list && *list; at++) {
        size_t length = strcspn(list, ":");
        if (at == FAULTS || length >= PATH_MAX) abort();
        memcpy(faults[at], list, length);
        list += length + (list[length] == ':');
    }
    deaf = getenv("BLACKBOX_DEAF") != NULL;
    log_fd = REAL(open)(log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (log_fd < 0) abort();
}

static void note(int kind, uint64_t inode, uint64_t offset, const void *data, size_t length) {
    struct record head = {.kind = (uint8_t)kind, .process = (uint32_t)getpid(), .inode = inode, .offset = offset, .length = length};
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
    for (int at = 0; at < FAULTS && *faults[at]; at++) {
        size_t length = strlen(faults[at]);
        if (length > strlen(kind) && !strcmp(faults[at] + length - strlen(kind), kind))
            return truncate(faults[at], 1) == 0;
    }
    return 0;
}

static int is_file(int fd) { return fd >= 0 && fd < DESCRIPTORS && (watched[fd] & 1); }

/* Which folder a path is in or names, -1 for paths elsewhere. */
static int folder_of(const char *path) {
    for (int at = 0; at < folder_count && log_fd >= 0; at++) {
        size_t length = folders[at].length;
        if (strncmp(path, folders[at].path, length)) continue;
        if (path[length] == 0) return at;
        if (path[length] == '/' && strcmp(path + length, "/lock.mdb")) return at;
    }
    return -1;
}

/* The name with that of its folder, or NULL for paths elsewhere and for the folder itself. */
static const char *name_of(const char *path) {
    int at = folder_of(path);
    return at < 0 || path[folders[at].length] == 0 ? NULL : path + folders[at].parent;
}

static int opened(int fd, const char *path, int flags, int existed) {
    int at = folder_of(path);
    if (fd < 0 || fd >= DESCRIPTORS || at < 0) return fd;
    const char *name = name_of(path);
    struct stat status;
    if (!name || (fstat(fd, &status) == 0 && S_ISDIR(status.st_mode))) {
        watched[fd] = 2;
        return fd;
    }
    watched[fd] = (flags & O_DSYNC) ? 3 : 1;
    if ((flags & O_CREAT) && !existed) note(CREATE, inode_of(fd), 0, name, strlen(name));
    if (flags & O_TRUNC) note(SIZE, inode_of(fd), 0, NULL, 0);
    return fd;
}

/* After a write that is a sync of what it wrote, and of nothing else. */
static void written(int fd, const void *data, ssize_t count, uint64_t offset) {
    if (count > 0 && is_file(fd) && watched[fd] == 3 && !deaf)
        note(SYNCED_WRITE, inode_of(fd), offset, data, (size_t)count);
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
        ssize_t result = REAL(function)(fd, data, count, offset);                     \
        written(fd, data, result, (uint64_t)offset);                                  \
        return result;                                                                \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

/* Several pages at the place where the file stands: how LMDB writes what lies side by side. */
ssize_t writev(int fd, const struct iovec *parts, int count) {
    if (is_file(fd)) {
        off_t offset = lseek(fd, 0, SEEK_CUR);
        if (offset < 0 || watched[fd] == 3) abort();
        for (int part = 0; part < count; part++) {
            note(WRITE, inode_of(fd), (uint64_t)offset, parts[part].iov_base, parts[part].iov_len);
            offset += (off_t)parts[part].iov_len;
        }
    }
    return REAL(writev)(fd, parts, count);
}

/* Ways of writing that the black box does not know would make it forget: better to stop. */
ssize_t write(int fd, const void *data, size_t count) {
    if (is_file(fd)) abort();
    return REAL(write)(fd, data, count);
}
ssize_t pwritev(int fd, const struct iovec *parts, int count, __off_t offset) {
    if (is_file(fd)) abort();
    return REAL(pwritev)(fd, parts, count, offset);
}

static void note_folder(int fd) {
    char path[PATH_MAX], link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length <= 0) return;
    path[length] = 0;
    int at = folder_of(path);
    if (at >= 0) note(SYNC_FOLDER, 0, 0, path + folders[at].parent, strlen(path + folders[at].parent));
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
        while (fd >= 0 && fd < DESCRIPTORS && watched[fd] && has_fault("stuck")) {    \
            usleep(1000);                                                             \
        }                                                                             \
        int result = REAL(function)(fd);                                              \
        if (result == 0 && !deaf && fd >= 0 && fd < DESCRIPTORS) {                    \
            if (watched[fd] & 1) note(SYNC, inode_of(fd), 0, NULL, 0);                \
            if (watched[fd] == 2) note_folder(fd);                                    \
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
    if (name) note(REMOVE, 0, 0, name, strlen(name));
    return REAL(unlink)(path);
}

/* How Python removes a tree. */
int unlinkat(int fd, const char *path, int flags) {
    char whole[2 * PATH_MAX], link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = fd < 0 ? -1 : readlink(link, whole, PATH_MAX);
    if (length > 0 && !(flags & AT_REMOVEDIR)) {
        snprintf(whole + length, PATH_MAX, "/%s", path);
        const char *name = name_of(whole);
        if (name) note(REMOVE, 0, 0, name, strlen(name));
    }
    return REAL(unlinkat)(fd, path, flags);
}
