/* A wall clock that runs faster than the world.
 *
 * Loaded into the broker's processes by LD_PRELOAD. CLOCK_REALTIME, however it is asked for, is
 * FAST_CLOCK_ORIGIN (nanoseconds since 1970 UTC) and FAST_CLOCK_SPEED times what has passed since
 * then. All processes that get both agree on the time, also after a restart. Every other clock is
 * as it was: sleeps and timeouts are those of the world, and so are the times of files. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

#define SECOND INT64_C(1000000000)

static int (*real)(clockid_t, struct timespec *);
static int64_t origin, speed;

/* Not only at load: a constructor of another library may ask for the time before that. */
__attribute__((constructor)) static void begin(void) {
    const char *from = getenv("FAST_CLOCK_ORIGIN"), *times = getenv("FAST_CLOCK_SPEED");
    if (real) return;
    origin = from ? strtoll(from, NULL, 10) : 0;
    speed = times ? strtoll(times, NULL, 10) : 1;
    if (origin <= 0 || speed <= 0) abort();
    real = (__typeof__(real))dlsym(RTLD_NEXT, "clock_gettime");
    if (!real) abort();
}

int clock_gettime(clockid_t clock, struct timespec *found) {
    begin();
    int result = real(clock, found);
    if (result != 0 || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return result;
    int64_t now = origin + (found->tv_sec * SECOND + found->tv_nsec - origin) * speed;
    found->tv_sec = now / SECOND;
    found->tv_nsec = now % SECOND;
    return 0;
}

int gettimeofday(struct timeval *restrict found, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    found->tv_sec = now.tv_sec;
    found->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *found) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return (time_t)-1;
    if (found) *found = now.tv_sec;
    return now.tv_sec;
}
