/* A clock that moves only when the main thread reads it or sleeps, for LD_PRELOAD. A sleep of ppoll(2) returns at once,
 * and lasts longer than asked by OVERSLEEP nanoseconds. So what a loop does with its time is the same on any machine.
 * Other threads have the true clock. */

#define _GNU_SOURCE

#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { READ_NANOSECONDS = 1000 };

static int64_t elapsed = 1000000000;
int64_t slept;

int clock_gettime(clockid_t clock, struct timespec *at)
{
	if (clock != CLOCK_MONOTONIC || syscall(SYS_gettid) != getpid())
		return syscall(SYS_clock_gettime, clock, at);
	elapsed += READ_NANOSECONDS;
	at->tv_sec = elapsed / 1000000000;
	at->tv_nsec = elapsed % 1000000000;
	return 0;
}

int ppoll(struct pollfd *descriptors, nfds_t count, const struct timespec *limit, const sigset_t *mask)
{
	int ready = poll(descriptors, count, 0);

	(void)mask;
	if (!ready) {
		int64_t length = limit->tv_sec * 1000000000 + limit->tv_nsec + atoll(getenv("OVERSLEEP"));

		elapsed += length;
		slept += length;
	}
	return ready;
}
