/* A stopwatch for the stages of a message on its way through the processes of a broker.
 *
 * Loaded into the broker's processes by LD_PRELOAD. Each call that begins or ends a stage is passed on
 * and noted, with its begin and end (CLOCK_MONOTONIC, nanoseconds), in a file of each process:
 * STAGES_LOG with the pid behind it. Nothing is noted after STAGES_MAX records. The product has no
 * code for this: a broker without the library pays nothing. bench/stages.py reads the files.
 *
 * Clocks count too, since they are asked for at known places: the processor time of the thread at the
 * begin and end of a turn and of input, the time of day when a block is closed; so does the end of a
 * digest, which is the last step of encoding a block. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { READ = 1, WRITE, SEND, RECEIVE, PWRITE, SYNC, DAYTIME, METER, DIGEST, WAIT };

struct record {
    uint64_t begin, end;
    uint32_t thread, kind;
    int64_t result;
};

struct log {
    _Atomic uint64_t used;
    struct record records[];
};

static struct log *notes;
static uint64_t limit;
static pid_t owner;

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(real))dlsym(RTLD_NEXT, #name)

static int real_clock(clockid_t clock, struct timespec *found) {
    REAL(clock_gettime);
    return real(clock, found);
}

static uint64_t now(void) {
    struct timespec found;
    real_clock(CLOCK_MONOTONIC, &found);
    return (uint64_t)found.tv_sec * 1000000000u + (uint64_t)found.tv_nsec;
}

/* A process that was forked begins a file of its own. */
static void begin_file(void) {
    const char *path = getenv("STAGES_LOG"), *most = getenv("STAGES_MAX");
    char name[PATH_MAX];
    owner = getpid();
    notes = NULL;
    if (!path || !most) return;
    limit = strtoull(most, NULL, 10);
    size_t size = sizeof(struct log) + limit * sizeof(struct record);
    snprintf(name, sizeof name, "%s.%d", path, (int)owner);
    int file = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, (off_t)size) != 0) abort();
    void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    syscall(SYS_close, file);
    if (mapped == MAP_FAILED) abort();
    notes = mapped;
}

__attribute__((constructor)) static void begin(void) { begin_file(); }

static void note(uint32_t kind, uint64_t since, int64_t result) {
    if (owner != getpid()) begin_file();
    if (!notes) return;
    uint64_t at = atomic_fetch_add(&notes->used, 1);
    if (at >= limit) return;
    notes->records[at] = (struct record){since, now(), (uint32_t)gettid(), kind, result};
}

static int is_local(int file) {
    int domain = 0;
    socklen_t size = sizeof domain;
    if (getsockopt(file, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0) return -1;
    return domain == AF_UNIX;
}

/* What is neither a peer's socket nor one between processes is not noted. */
static void note_input(int file, uint64_t since, int64_t result) {
    int local = is_local(file);
    if (local >= 0 && result > 0) note(local ? RECEIVE : READ, since, result);
}

static void note_output(int file, uint64_t since, int64_t result) {
    int local = is_local(file);
    if (local >= 0 && result > 0) note(local ? SEND : WRITE, since, result);
}

ssize_t read(int file, void *buffer, size_t count) {
    REAL(read);
    uint64_t since = now();
    ssize_t result = real(file, buffer, count);
    note_input(file, since, result);
    return result;
}

ssize_t recv(int file, void *buffer, size_t count, int flags) {
    REAL(recv);
    uint64_t since = now();
    ssize_t result = real(file, buffer, count, flags);
    note_input(file, since, result);
    return result;
}

ssize_t write(int file, const void *data, size_t count) {
    REAL(write);
    uint64_t since = now();
    ssize_t result = real(file, data, count);
    note_output(file, since, result);
    return result;
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    REAL(writev);
    uint64_t since = now();
    ssize_t result = real(file, parts, count);
    note_output(file, since, result);
    return result;
}

ssize_t send(int file, const void *data, size_t count, int flags) {
    REAL(send);
    uint64_t since = now();
    ssize_t result = real(file, data, count, flags);
    note_output(file, since, result);
    return result;
}

ssize_t sendmsg(int file, const struct msghdr *message, int flags) {
    REAL(sendmsg);
    uint64_t since = now();
    ssize_t result = real(file, message, flags);
    note_output(file, since, result);
    return result;
}

ssize_t pwrite64(int file, const void *data, size_t count, off64_t offset) {
    REAL(pwrite64);
    uint64_t since = now();
    ssize_t result = real(file, data, count, offset);
    note(PWRITE, since, result);
    return result;
}

ssize_t pwrite(int file, const void *data, size_t count, off_t offset) {
    return pwrite64(file, data, count, offset);
}

int fdatasync(int file) {
    REAL(fdatasync);
    uint64_t since = now();
    int result = real(file);
    note(SYNC, since, result);
    return result;
}

int epoll_pwait(int file, struct epoll_event *events, int most, int timeout, const sigset_t *mask) {
    REAL(epoll_pwait);
    uint64_t since = now();
    int result = real(file, events, most, timeout, mask);
    note(WAIT, since, result);
    return result;
}

int clock_gettime(clockid_t clock, struct timespec *found) {
    if (clock == CLOCK_REALTIME) note(DAYTIME, now(), 0);
    if (clock == CLOCK_THREAD_CPUTIME_ID) note(METER, now(), 0);
    return real_clock(clock, found);
}

/* libcrypto is loaded beside the others, where RTLD_NEXT does not look. */
int EVP_DigestFinal(void *context, unsigned char *digest, unsigned int *size) {
    static int (*real)(void *, unsigned char *, unsigned int *);
    if (!real) {
        void *library = dlopen("libcrypto.so.3", RTLD_LAZY | RTLD_NOLOAD);
        if (!library) library = dlopen("libcrypto.so.1.1", RTLD_LAZY | RTLD_NOLOAD);
        if (library) real = (__typeof__(real))dlsym(library, "EVP_DigestFinal");
        if (!real) abort();
    }
    uint64_t since = now();
    int result = real(context, digest, size);
    note(DIGEST, since, result);
    return result;
}
