/* Completion queues whose completions carry the device's time, and its conversion to CLOCK_MONOTONIC. Part of traffic.c.
 *
 * A reading pairs both clocks: CLOCK_MONOTONIC is read before and after the device's. The middle is off by at most half of
 * the time between. A time is converted from the latest reading, with the device's rate.
 *
 * The loop takes a reading each 50 ms, so a time is converted over some 50 ms. Devices state their frequency in kHz, and
 * crystals are off by up to 100 ppm: with the stated rate alone, a time would be off by up to 5 us, as long as a round trip.
 * So the rate is measured between readings that are RATE_NANOSECONDS apart. Readings off by 1 us each make it wrong by
 * 2 ppm, and a time by 0.1 us. What remains is half of the time that the last reading took. */
#ifndef COLLIE_NIC_CLOCK_H
#define COLLIE_NIC_CLOCK_H

#include <errno.h>
#include <stdlib.h>

#include "verbs_abi.h"

/* The structures below are as in nic_clock.py, member by member. */

struct reading {
	int64_t at; /* CLOCK_MONOTONIC */
	uint64_t raw;
	int64_t took;
};

struct nic_clock {
	struct abi_context *context;
	uint64_t mask; /* of the bits that count */
	double stated; /* nanoseconds of a tick */
	double rate; /* likewise, as measured */
	struct reading latest;
	struct reading first; /* of the two that measure the rate */
	uint32_t trusted;
	uint32_t unused;
};

enum { RATE_NANOSECONDS = 1000000000, READINGS = 8 };
/* A device's clock that is off by more is not what the device says, or the host's is being set. */
static const double MOST_OFF = 1e-3;
/* A crystal is hardly off by more. */
static const double USUALLY_OFF = 1e-4;
static const int64_t MOST_APART = INT64_MAX / 4;

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* How many ticks later than another time a device's time is. Less than half of a wrap lies between. */
static int64_t ticks_since(uint64_t mask, uint64_t raw, uint64_t other)
{
	uint64_t ticks = (raw - other) & mask;

	return ticks > mask / 2 ? (int64_t)(ticks - mask - 1) : (int64_t)ticks;
}

/* The extended verbs of a device, of which a library has those that its size covers. */
static struct abi_verbs_context *extended(struct abi_context *context)
{
	if (context->abi_compat != ABI_EXTENDED)
		return NULL;
	return (struct abi_verbs_context *)((char *)context - offsetof(struct abi_verbs_context, context));
}

#define OFFERS(verbs, verb) \
	((verbs)->sz >= sizeof(*(verbs)) - offsetof(struct abi_verbs_context, verb) && (verbs)->verb)

static int read_clocks(const struct nic_clock *clock, struct reading *reading)
{
	struct abi_values_ex values = {.comp_mask = ABI_VALUES_MASK_RAW_CLOCK};
	int64_t before = now(), after;

	if (extended(clock->context)->query_rt_values(clock->context, &values))
		return 0;
	after = now();
	/* Ticks come as nanoseconds. A device that reports seconds counts in another unit than its completions. */
	if (!(values.comp_mask & ABI_VALUES_MASK_RAW_CLOCK) || values.raw_clock.tv_sec)
		return 0;
	*reading = (struct reading){before + (after - before) / 2, (uint64_t)values.raw_clock.tv_nsec & clock->mask, after - before};
	return 1;
}

static int differs(double one, double other, double share)
{
	return !(one - other <= share * other && other - one <= share * other);
}

static void measure_rate(struct nic_clock *clock)
{
	int64_t elapsed = clock->latest.at - clock->first.at;

	if (elapsed < RATE_NANOSECONDS)
		return;
	/* Readings that are too far apart tell nothing: the device's clock may have wrapped. */
	if (elapsed / clock->stated < clock->mask / 4) {
		double rate = elapsed / (double)ticks_since(clock->mask, clock->latest.raw, clock->first.raw);

		if (differs(rate, clock->stated, MOST_OFF)) {
			clock->trusted = 0;
			return;
		}
		clock->rate = rate;
	}
	clock->first = clock->latest;
}

/* Take a new reading, unless it leaves more doubt than the latest one by now: the host may have been busy meanwhile. */
static void refresh_clock(struct nic_clock *clock)
{
	struct reading reading;

	if (!clock->trusted)
		return;
	if (!read_clocks(clock, &reading)) {
		clock->trusted = 0;
		return;
	}
	if (reading.took > clock->latest.took + USUALLY_OFF * (reading.at - clock->latest.at))
		return;
	clock->latest = reading;
	measure_rate(clock);
}

/* Begin a phase: take the shortest of several readings. What the clock did in another phase is not held against it. */
static void begin_clock(struct nic_clock *clock)
{
	struct reading reading;

	clock->trusted = 0;
	for (int n = 0; n < READINGS; n++) {
		if (!read_clocks(clock, &reading))
			return;
		if (!n || reading.took < clock->latest.took)
			clock->latest = reading;
	}
	clock->first = clock->latest;
	clock->trusted = 1;
}

/* When the device's clock showed something, on CLOCK_MONOTONIC. */
static int64_t converted(const struct nic_clock *clock, uint64_t raw)
{
	double later = ticks_since(clock->mask, raw, clock->latest.raw) * clock->rate;

	return clock->latest.at + (later > MOST_APART ? MOST_APART : later < -MOST_APART ? -MOST_APART : (int64_t)later);
}

/* By how much a converted time can be wrong. */
static int64_t doubt(const struct nic_clock *clock, int64_t time)
{
	return clock->latest.took + (int64_t)(MOST_OFF * llabs(time - clock->latest.at));
}

/* Find a device's clock. Returns 1 if it stamps completions, can be read and says how fast it is. */
EXPORT int collie_clock_open(struct nic_clock *clock, struct abi_context *context)
{
	struct abi_verbs_context *verbs = extended(context);
	struct abi_device_attr_ex attr = {.hca_core_clock = 0};

	if (!verbs || !OFFERS(verbs, create_cq_ex) || !OFFERS(verbs, query_device_ex) || !OFFERS(verbs, query_rt_values))
		return 0;
	if (verbs->query_device_ex(context, NULL, &attr, sizeof(attr)))
		return 0;
	/* A mask with holes would be no count of ticks. */
	if (!attr.completion_timestamp_mask || attr.completion_timestamp_mask & (attr.completion_timestamp_mask + 1))
		return 0;
	if (!attr.hca_core_clock)
		return 0;
	clock->context = context;
	clock->mask = attr.completion_timestamp_mask;
	clock->stated = clock->rate = 1e6 / attr.hca_core_clock;
	begin_clock(clock);
	return clock->trusted;
}

/* Make a completion queue whose completions carry the device's time. It is a struct ibv_cq to all verbs but polling. */
EXPORT struct abi_cq_ex *collie_create_stamped_cq(struct abi_context *context, uint32_t entries, void *channel)
{
	struct abi_cq_init_attr_ex attr = {
		.cqe = entries,
		.channel = channel,
		.wc_flags = ABI_WC_EX_WITH_BYTE_LEN | ABI_WC_EX_WITH_IMM | ABI_WC_EX_WITH_QP_NUM |
			    ABI_WC_EX_WITH_COMPLETION_TIMESTAMP,
	};

	return extended(context)->create_cq_ex(context, &attr);
}

static void read_completion(struct abi_cq_ex *cq, struct abi_wc *wc, uint64_t *stamp)
{
	*wc = (struct abi_wc){.wr_id = cq->wr_id, .status = cq->status, .qp_num = cq->read_qp_num(cq)};
	*stamp = 0;
	if (wc->status) /* such a completion may have no more */
		return;
	wc->byte_len = cq->read_byte_len(cq);
	wc->wc_flags = cq->read_wc_flags(cq);
	if (wc->wc_flags & ABI_WC_WITH_IMM)
		wc->imm_data = cq->read_imm_data(cq);
	*stamp = cq->read_completion_ts(cq);
}

/* poll_cq() of such a queue: returns how many completions it found, or a negative error number. */
EXPORT int collie_poll_stamped(struct abi_cq_ex *cq, int entries, struct abi_wc *completions, uint64_t *stamps)
{
	struct abi_poll_cq_attr attr = {0};
	int found = 0, error = cq->start_poll(cq, &attr);

	if (error)
		return error == ENOENT ? 0 : -abs(error);
	do {
		read_completion(cq, &completions[found], &stamps[found]);
		found++;
	} while (found < entries && !(error = cq->next_poll(cq)));
	cq->end_poll(cq);
	return error && error != ENOENT ? -abs(error) : found;
}

#endif
