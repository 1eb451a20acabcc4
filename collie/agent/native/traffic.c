/* The traffic loop of collie/agent/traffic.py in C: the same rules, the same shared words, the same encoding of work
 * request ids. Python makes the verbs objects and lays out the work requests (native_traffic.py); this file only posts
 * and polls. It links against nothing but libc: the library's functions come as pointers.
 *
 * Only this loop offers a load and times rounds:
 *
 * 1. A round of a paced queue is due when the bytes before it, at the queue's rate, have had their time. It is posted
 *    once it is due and the queue has room. It counts from when it was due, so a wait for room is part of its latency.
 * 2. Rounds of a queue complete in the order of posting, so a ring of those that are timed suffices.
 * 3. To read the clock costs as much as to post. It is read per timed round and, for gaps, once in a few polls that found
 *    something. A paced loop reads it in each round.
 * 4. A sleep lasts longer than asked, by 0.1 ms on a server and by 0.5 ms on an emulated machine. So the loop learns by
 *    how much sooner to wake, and polls until the round is due.
 * 5. With UC and UD a completion proves only that the device took the request, so a timed round ends with immediate data,
 *    the number of its echo. The responder sends this number back. An echo can be lost, so a queue has a few places for
 *    them, and a new round takes that of the oldest.
 * 6. A timed round ends when the device completed it, if the device stamps completions (nic_clock.h). Else it ends when
 *    the loop polls it, which includes the time that the loop took to come to that completion queue. */

#define _GNU_SOURCE

#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

#include "nic_clock.h"
#include "verbs_abi.h"

/* Which source this object was compiled from: what carries it looks for these bytes. */
EXPORT const char collie_source[] = "collie-source:" SOURCE_DIGEST;

/* As in totals.py. */
enum { ATTENTION, ITERATIONS, IDLE_POLLS, QUEUE_EMPTY, POSTS, FLUSHED, POST_ERRORS, QUEUE_OUTSTANDING, QUEUE_LIMIT };
enum { STRAGGLERS = 9, ERRORS, ERROR_WORDS = 32 };
enum { NIC_CLOCK = 47 };
enum { POSTED_MESSAGES, POSTED_BYTES, COMPLETED_MESSAGES, DELIVERED_MESSAGES, DELIVERED_BYTES, FAILED_QPS };
enum { RETURNED_MESSAGES = 6, RETURNED_BYTES, ROUNDS_OUT, PROGRESS_AT };
enum { LATENCIES = 10, GAPS = LATENCIES + 512 };

/* As in histogram.py. */
enum { SUB_BITS = 4, BUCKETS = 512 };

/* As in queues.py. */
enum { RECEIVE, SEND, SEND_END, ECHO };
enum { KIND_MASK = 3, GENERATION_SHIFT = 2, QUEUE_SHIFT = 6, BYTES_SHIFT = 26 };
enum { GENERATION_MASK = (1 << (QUEUE_SHIFT - GENERATION_SHIFT)) - 1 };
enum { QUEUE_MASK = (1 << (BYTES_SHIFT - QUEUE_SHIFT)) - 1 };

enum { POLL_BATCH = 32, IDLE_MILLISECONDS = 50, WC_FLUSHED = 5 };
/* As in resources.py: echoes that a queue pair can wait for, or send, at a time. */
enum { ECHOES = 32 };

/* The structures below are as in native_traffic.py, member by member. */

struct proof { /* what a completion of a flow with payload both ways proves to have come back */
	uint64_t bytes;
	uint64_t messages;
};

struct timed { /* a round that is timed */
	int64_t since;
	uint64_t following; /* how many rounds later the next one is */
};

struct echo { /* a round whose echo has not come, or a free place (0) */
	int64_t since;
	uint32_t number;
	uint32_t unused;
};

struct queue {
	struct abi_object *target; /* queue pair, or shared receive queue */
	void **chains;
	const uint64_t *chain_bytes;
	const struct proof *returns;
	int (*post)(void *target, void *wr, void **bad_wr);
	uint64_t *totals; /* words of its flow's end */
	uint64_t *pair_word;
	struct timed *timed; /* ring of `limit` entries, NULL where completions time nothing */
	struct echo *echoes; /* ring of ECHOES entries, NULL where echoes time nothing */
	double nanoseconds_per_byte; /* 0: not paced */
	double stagger; /* share of a round by which it is behind the first queue of its flow */
	uint64_t count; /* completions not settled yet, and their bytes */
	uint64_t bytes;
	uint64_t offered; /* bytes of the rounds posted so far */
	int64_t due;
	uint32_t chain_count;
	uint32_t next;
	uint32_t limit;
	uint32_t batch;
	uint32_t posts; /* chains in a round */
	uint32_t messages_per_signal;
	uint32_t overhead;
	uint32_t outstanding; /* rounds of sends */
	uint32_t used;	      /* receives completed and not posted again yet */
	uint32_t sends;
	uint32_t shared;
	uint32_t alive;
	uint32_t listed;
	uint32_t return_count;
	uint32_t returned;
	uint32_t generation; /* of its work requests */
	uint32_t timed_first;
	uint32_t timed_count;
	uint32_t until_posted; /* rounds to post, and to complete, up to the next one that is timed */
	uint32_t until_completed;
	uint32_t reported; /* rounds in the word of those that are outstanding */
	uint32_t waiting;  /* among those that wait until a round is due */
	uint32_t next_echo;
};

struct completion_queue {
	struct abi_object *cq;
	void *channel;
	int32_t fd;
	uint32_t stamped;
};

struct pair { /* sorted by number; only shared receive queues and echoes need it */
	uint64_t *word;
	struct abi_object *target;
	struct abi_send_wr *echo; /* of a responder, NULL where it echoes nothing */
	void *echo_receive; /* of a requester */
	uint32_t qp_num;
	uint32_t failed;
	uint32_t echoes_out;
	uint32_t unused;
};

struct traffic {
	uint64_t *words;
	struct queue *queues;
	struct completion_queue *cqs;
	struct pair *pairs;
	struct pollfd *sleepers; /* one per completion queue, then the control descriptor */
	struct queue **waiting; /* heap of queues with room, the one that is due first on top */
	struct nic_clock *clock; /* of the stamped completion queues, NULL where none is */
	int (*get_cq_event)(void *channel, void **cq, void **cq_context);
	void (*ack_cq_events)(void *cq, unsigned int events);
	int64_t began;
	int64_t now; /* when the clock was last read */
	int64_t reviewed;
	int64_t spin; /* nanoseconds for which it polls after something happened, before it sleeps */
	int64_t oversleep; /* of seven of eight sleeps at most, in nanoseconds */
	int64_t gap; /* between the last round that was due and the next, in nanoseconds */
	uint64_t rounds; /* posted on queues that completions time, since the last review, up to the last that was timed */
	uint64_t echo_rounds; /* likewise on queues that echoes time */
	double echo_budget; /* rounds that may still ask for an echo */
	uint32_t queue_count;
	uint32_t cq_count;
	uint32_t pair_count;
	uint32_t sending;
	int32_t control;
	uint32_t waiting_count;
	uint32_t paced;
	uint32_t every; /* how many rounds there are to one that is timed, and to one that asks for an echo */
	uint32_t echo_every;
	uint32_t echo_number; /* of the last round that asked for one */
	uint32_t echoes_out; /* sends of echoes that have not completed */
	uint32_t fresh; /* the clock has been read since the last poll that found something */
	uint32_t busy;	/* polls in a row that found something */
	uint32_t rounds_out; /* of this phase, on queues that still work */
};

/* All rounds are timed up to TIMED_PER_SECOND. Above, so few that the rate stays there, but one in MOST_EVERY. An echo
 * costs a message, so there are fewer, and a budget keeps a rate that is not known yet, or just after a stall, from
 * asking for many at once. */
enum { MOST_EVERY = 64, TIMED_PER_SECOND = 4096, REVIEW_NANOSECONDS = 50000000 };
enum { MOST_EVERY_ECHO = 1024, ECHOES_PER_SECOND = 128 };
/* A gap may seem longer by the time of so many polls that found something. */
enum { POLLS_PER_LOOK = 4 };
/* What is due sooner is polled for: to sleep and to wake takes about as long. */
enum { SHORTEST_LEAD_NANOSECONDS = 100000, LONGEST_OVERSLEEP_NANOSECONDS = 5000000 };
/* Polling takes at most this share of the time, as on a host of few CPUs it would hold up a software device. It also lets
 * the loop sleep after each round, and so go on learning. */
enum { LEAD_SHARE = 4 };
/* A round that is out alone is polled for: there is nothing to batch, and the event that ends a sleep would be part of its
 * latency. With several, an emulated CPU is better left to the kernel's half of a software device. */
enum { SPIN_ALONE_NANOSECONDS = 1000000 };
/* A longer wait is cut to 146 years: added to the clock, it still fits 64 bits. */
static const int64_t NEVER = INT64_MAX / 2;

static int64_t look(struct traffic *t)
{
	if (!t->fresh) {
		t->now = now();
		t->fresh = 1;
	}
	return t->now;
}

/* Whether the device's clock ends rounds, as the samples say. */
static void report_clock(struct traffic *t)
{
	t->words[NIC_CLOCK] = t->clock && t->clock->trusted;
}

/* When the device completed what began at `since`. A stamp from before that or after the poll shows that the clock is not
 * what it seemed to be. Then polls end rounds, up to the next phase. */
static int64_t completed_at(struct traffic *t, const uint64_t *stamp, int64_t since)
{
	int64_t polled = look(t);

	if (!stamp || !t->clock->trusted)
		return polled;
	int64_t time = converted(t->clock, *stamp), error = doubt(t->clock, time);

	if (time < since - error || time > polled + error) {
		t->clock->trusted = 0;
		report_clock(t);
		return polled;
	}
	return time < polled ? time : polled;
}

static struct pair *find_pair(const struct traffic *t, uint32_t qp_num)
{
	uint32_t low = 0, high = t->pair_count;

	while (low + 1 < high) {
		uint32_t middle = (low + high) / 2;

		if (t->pairs[middle].qp_num <= qp_num)
			low = middle;
		else
			high = middle;
	}
	return &t->pairs[low];
}

EXPORT uint32_t collie_bucket(int64_t nanoseconds)
{
	uint64_t value = nanoseconds > 0 ? nanoseconds : 0;
	uint32_t shift = value >> SUB_BITS ? 63 - SUB_BITS - __builtin_clzll(value) : 0;
	uint64_t bucket = ((uint64_t)shift << SUB_BITS) + (value >> shift);

	return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static void end_queue(struct traffic *t, struct queue *queue)
{
	if (queue->alive) {
		queue->alive = 0;
		queue->totals[FAILED_QPS]++;
		if (queue->sends) {
			t->rounds_out -= queue->outstanding;
			queue->totals[ROUNDS_OUT] -= queue->reported;
			queue->reported = 0;
		}
	}
}

static uint32_t common_divisor(uint32_t one, uint32_t other)
{
	while (other) {
		uint32_t rest = one % other;

		one = other;
		other = rest;
	}
	return one;
}

/* How many rounds on the next one is timed. What has no common divisor with the cycle of the queue's requests, nor with
 * the powers of two in which devices and loops batch, times each kind of round alike. */
EXPORT uint32_t collie_next_timed(uint32_t every, uint32_t cycle)
{
	every |= 1;
	while (common_divisor(every, cycle) != 1)
		every += 2;
	return every;
}

/* The oversleep after a sleep that ended so much later than asked. A quarter more after one that exceeds it and a 32nd less
 * after one that does not leave one of eight above. Other work can prolong a sleep by any time, so its length is not used. */
EXPORT int64_t collie_next_oversleep(int64_t oversleep, int64_t late)
{
	oversleep += late > oversleep ? oversleep / 4 : -(oversleep / 32);
	if (oversleep < SHORTEST_LEAD_NANOSECONDS)
		return SHORTEST_LEAD_NANOSECONDS;
	return oversleep < LONGEST_OVERSLEEP_NANOSECONDS ? oversleep : LONGEST_OVERSLEEP_NANOSECONDS;
}

/* How long before a round is due the loop wakes, and polls from then on. */
static int64_t lead(const struct traffic *t)
{
	int64_t most = t->gap / LEAD_SHARE;

	if (t->oversleep < most)
		return t->oversleep;
	return most > SHORTEST_LEAD_NANOSECONDS ? most : SHORTEST_LEAD_NANOSECONDS;
}

static uint32_t within(double every, uint32_t most)
{
	return every < 1 ? 1 : every > most ? most : every;
}

/* Time as many rounds as the rate of posting allows, and keep up with the device's clock. */
static void review(struct traffic *t)
{
	int64_t elapsed = t->now - t->reviewed;

	if (elapsed < REVIEW_NANOSECONDS)
		return;
	double seconds = elapsed / 1e9, few = ECHOES_PER_SECOND * seconds, share = (double)t->echo_rounds / MOST_EVERY_ECHO;
	double most = share > ECHOES ? share : ECHOES;

	t->every = within(t->rounds / seconds / TIMED_PER_SECOND, MOST_EVERY);
	t->echo_every = within(t->echo_rounds / few, MOST_EVERY_ECHO);
	t->echo_budget += few > share ? few : share;
	if (t->echo_budget > most)
		t->echo_budget = most;
	t->rounds = t->echo_rounds = 0;
	t->reviewed = t->now;
	if (t->clock) {
		refresh_clock(t->clock);
		report_clock(t);
	}
}

/* The heap of queues that wait. */
static void push(struct traffic *t, struct queue *queue)
{
	uint32_t place = t->waiting_count++;

	while (place && t->waiting[(place - 1) / 2]->due > queue->due) {
		t->waiting[place] = t->waiting[(place - 1) / 2];
		place = (place - 1) / 2;
	}
	t->waiting[place] = queue;
	queue->waiting = 1;
}

static struct queue *pop(struct traffic *t)
{
	struct queue *first = t->waiting[0], *last = t->waiting[--t->waiting_count];
	uint32_t place = 0, child;

	while ((child = 2 * place + 1) < t->waiting_count) {
		if (child + 1 < t->waiting_count && t->waiting[child + 1]->due < t->waiting[child]->due)
			child++;
		if (last->due <= t->waiting[child]->due)
			break;
		t->waiting[place] = t->waiting[child];
		place = child;
	}
	t->waiting[place] = last;
	first->waiting = 0;
	return first;
}

static void count_failed_post(struct traffic *t, int error)
{
	if (!t->words[POST_ERRORS]++)
		dprintf(2, "first failed post: %s\n", strerror(error));
}

static void post(struct traffic *t, struct queue *queue)
{
	void *bad_wr;
	int error = 0;

	t->words[POSTS]++;
	error = queue->post(queue->target, queue->chains[queue->next], &bad_wr);
	if (++queue->next == queue->chain_count)
		queue->next = 0;
	if (error) {
		count_failed_post(t, error);
		end_queue(t, queue);
	}
}

static void settle_receives(struct traffic *t, struct queue *queue)
{
	queue->totals[DELIVERED_MESSAGES] += queue->count;
	queue->totals[DELIVERED_BYTES] += queue->bytes;
	if (!queue->shared)
		*queue->pair_word += queue->count;
	queue->used += queue->count;
	queue->count = queue->bytes = queue->listed = 0;
	while (queue->used >= queue->batch && queue->alive) {
		queue->used -= queue->batch;
		post(t, queue);
	}
}

/* Add up what came back to the requester of a flow with payload both ways; returns how many messages did. */
static uint64_t settle_returns(struct queue *queue)
{
	uint64_t messages = 0;

	for (uint64_t i = 0; i < queue->count; i++) {
		const struct proof *proof = &queue->returns[queue->returned];

		if (++queue->returned == queue->return_count)
			queue->returned = 0;
		messages += proof->messages;
		queue->totals[RETURNED_BYTES] += proof->bytes;
	}
	queue->totals[RETURNED_MESSAGES] += messages;
	return messages;
}

/* Set when the next round of a paced queue is due. */
static void schedule(const struct traffic *t, struct queue *queue)
{
	uint64_t bytes = 0;
	double wait;

	for (uint32_t n = 0; n < queue->posts; n++)
		bytes += queue->chain_bytes[queue->next + n];
	wait = (queue->offered + queue->stagger * bytes) * queue->nanoseconds_per_byte;
	queue->due = t->began + (wait < NEVER ? (int64_t)wait : NEVER);
	queue->offered += bytes;
}

static int is_timed(const struct queue *queue)
{
	return queue->timed || queue->echoes;
}

/* Time the round that is posted next. Returns the number of its echo, 0 if its completion ends it. */
static uint32_t time_round(struct traffic *t, struct queue *queue)
{
	int64_t since = queue->nanoseconds_per_byte ? queue->due : now();
	uint32_t every = queue->timed ? t->every : t->echo_every;

	queue->until_posted = collie_next_timed(every, queue->chain_count / queue->posts);
	if (queue->timed) {
		t->rounds += queue->until_posted;
		struct timed *timed = &queue->timed[(queue->timed_first + queue->timed_count++) % queue->limit];

		timed->since = since;
		timed->following = queue->until_posted;
		return 0;
	}
	t->echo_rounds += queue->until_posted;
	if (t->echo_budget < 1)
		return 0;
	struct echo *echo = &queue->echoes[queue->next_echo];

	t->echo_budget--;
	queue->next_echo = (queue->next_echo + 1) % ECHOES;
	if (!++t->echo_number)
		t->echo_number = 1;
	echo->since = since;
	return echo->number = t->echo_number;
}

/* Post a chain whose last message asks for an echo. The device has copied it when the post returns. */
static void post_asking(struct traffic *t, struct queue *queue, uint32_t number)
{
	struct abi_send_wr *last = queue->chains[queue->next];

	while (last->next)
		last = last->next;
	uint32_t opcode = last->opcode, immediate = last->imm_data;

	if (opcode == ABI_WR_SEND)
		last->opcode = ABI_WR_SEND_WITH_IMM;
	last->imm_data = number;
	post(t, queue);
	last->opcode = opcode;
	last->imm_data = immediate;
}

static void post_round(struct traffic *t, struct queue *queue)
{
	uint64_t *totals = queue->totals;
	uint32_t echo = 0;

	if (is_timed(queue) && !--queue->until_posted)
		echo = time_round(t, queue);
	queue->outstanding++;
	t->rounds_out++;
	for (uint32_t n = 0; n < queue->posts; n++) {
		totals[POSTED_BYTES] += queue->chain_bytes[queue->next];
		totals[POSTED_MESSAGES] += queue->batch;
		if (echo && n == queue->posts - 1)
			post_asking(t, queue, echo);
		else
			post(t, queue);
	}
	if (queue->nanoseconds_per_byte)
		schedule(t, queue);
}

static void report_outstanding(const struct traffic *t, struct queue *queue)
{
	uint32_t outstanding = queue->alive ? queue->outstanding : 0;

	if (outstanding && !queue->totals[ROUNDS_OUT])
		queue->totals[PROGRESS_AT] = t->now;
	queue->totals[ROUNDS_OUT] += (int64_t)outstanding - queue->reported;
	queue->reported = outstanding;
}

static int has_room(const struct traffic *t, const struct queue *queue)
{
	return queue->outstanding < queue->limit && t->sending && queue->alive;
}

/* Post what has room, of a paced queue what is due as well. Such a queue then waits, unless it is full. */
static void post_rounds(struct traffic *t, struct queue *queue)
{
	int paced = queue->nanoseconds_per_byte != 0;

	if (!queue->waiting) {
		while (has_room(t, queue) && (!paced || queue->due <= t->now))
			post_round(t, queue);
		if (paced && has_room(t, queue))
			push(t, queue);
	}
	if (is_timed(queue))
		report_outstanding(t, queue);
}

/* Post the rounds that are due. Returns whether there were any. */
static int post_due(struct traffic *t)
{
	int posted = 0;

	while (t->waiting_count && t->waiting[0]->due <= t->now) {
		post_rounds(t, pop(t));
		posted = 1;
	}
	if (posted && t->waiting_count)
		t->gap = t->waiting[0]->due - t->now;
	return posted;
}

static void end_round(struct traffic *t, struct queue *queue, const uint64_t *stamp)
{
	queue->outstanding--;
	t->rounds_out -= queue->alive;
	if (queue->timed && !--queue->until_completed) {
		const struct timed *timed = &queue->timed[queue->timed_first];

		queue->totals[LATENCIES + collie_bucket(completed_at(t, stamp, timed->since) - timed->since)]++;
		queue->until_completed = timed->following;
		queue->timed_first = (queue->timed_first + 1) % queue->limit;
		queue->timed_count--;
	}
}

/* Something completed at the time that the clock shows. */
static void progress(const struct traffic *t, uint64_t *totals)
{
	int64_t gap = t->now - (int64_t)totals[PROGRESS_AT];

	if (gap > 0) {
		totals[GAPS + collie_bucket(gap)]++;
		totals[PROGRESS_AT] = t->now;
	}
}

static void settle_sends(struct traffic *t, struct queue *queue)
{
	if (queue->count) {
		uint64_t messages = queue->count * queue->messages_per_signal;

		if (is_timed(queue) && t->fresh)
			progress(t, queue->totals);
		*queue->pair_word += messages;
		queue->totals[COMPLETED_MESSAGES] += messages;
		if (queue->return_count)
			messages -= settle_returns(queue);
		queue->totals[DELIVERED_MESSAGES] += messages;
		queue->totals[DELIVERED_BYTES] += queue->bytes;
		if (t->sending) {
			t->words[QUEUE_EMPTY] += queue->outstanding == 0;
			t->words[QUEUE_OUTSTANDING] += queue->outstanding;
			t->words[QUEUE_LIMIT] += queue->limit;
		}
	}
	queue->count = queue->bytes = queue->listed = 0;
	post_rounds(t, queue);
}

static void failed(struct traffic *t, struct queue *queue, const struct abi_wc *wc)
{
	if (wc->status == WC_FLUSHED)
		t->words[FLUSHED]++;
	else
		t->words[ERRORS + (wc->status < ERROR_WORDS ? wc->status : ERROR_WORDS - 1)]++;
	if (!queue->shared) {
		end_queue(t, queue);
	} else { /* the shared queue serves the other queue pairs still */
		struct pair *pair = find_pair(t, wc->qp_num);

		if (!pair->failed) {
			pair->failed = 1;
			queue->totals[FAILED_QPS]++;
		}
	}
}

static void send_echo(struct traffic *t, const struct abi_wc *asking)
{
	struct pair *pair = find_pair(t, asking->qp_num);
	void *bad_wr;
	int error;

	if (!pair->echo || pair->echoes_out == ECHOES)
		return;
	pair->echo->imm_data = asking->imm_data;
	error = pair->target->context->ops.post_send(pair->target, pair->echo, &bad_wr);
	if (error) {
		count_failed_post(t, error);
		return;
	}
	pair->echoes_out++;
	t->echoes_out++;
}

static void receive_echoes(struct traffic *t, struct pair *pair, uint32_t count)
{
	void *bad_wr;

	for (uint32_t n = 0; n < count; n++) {
		int error = pair->target->context->ops.post_recv(pair->target, pair->echo_receive, &bad_wr);

		if (error)
			count_failed_post(t, error);
	}
}

/* An echo was sent, or came back. One that is late for its phase finds no place that has its number. */
static void account_echo(struct traffic *t, struct queue *queue, const struct abi_wc *wc, const uint64_t *stamp)
{
	struct pair *pair = find_pair(t, wc->qp_num);

	if (pair->echoes_out) {
		pair->echoes_out--;
		t->echoes_out--;
	}
	if (wc->status) {
		if (wc->status != WC_FLUSHED)
			failed(t, queue, wc);
		return;
	}
	if (!pair->echo_receive)
		return;
	receive_echoes(t, pair, 1);
	for (uint32_t n = 0; queue->echoes && n < ECHOES; n++) {
		struct echo *echo = &queue->echoes[n];

		if (echo->number && echo->number == wc->imm_data) {
			queue->totals[LATENCIES + collie_bucket(completed_at(t, stamp, echo->since) - echo->since)]++;
			echo->number = 0;
			break;
		}
	}
}

/* Account for completions. Those of a stamped completion queue have stamps. */
static void account(struct traffic *t, const struct abi_wc *completions, const uint64_t *stamps, int count)
{
	struct queue *receives[POLL_BATCH], *sends[POLL_BATCH];
	int receive_count = 0, send_count = 0;

	for (int i = 0; i < count; i++) {
		const struct abi_wc *wc = &completions[i];
		struct queue *queue = &t->queues[wc->wr_id >> QUEUE_SHIFT & QUEUE_MASK];
		uint32_t kind = wc->wr_id & KIND_MASK;
		const uint64_t *stamp = stamps ? &stamps[i] : NULL;

		if (kind == ECHO) {
			account_echo(t, queue, wc, stamp);
			continue;
		}
		if ((wc->wr_id >> GENERATION_SHIFT & GENERATION_MASK) != queue->generation) {
			t->words[STRAGGLERS]++;
			continue;
		}
		if (wc->status) {
			failed(t, queue, wc);
			continue;
		}
		queue->count++;
		if (kind == RECEIVE) {
			queue->bytes += wc->byte_len - queue->overhead;
			if (queue->shared)
				++*find_pair(t, wc->qp_num)->word;
			if (wc->wc_flags & ABI_WC_WITH_IMM && wc->imm_data)
				send_echo(t, wc);
		} else {
			queue->bytes += wc->wr_id >> BYTES_SHIFT;
			if (kind == SEND_END)
				end_round(t, queue, stamp);
		}
		if (!queue->listed) {
			queue->listed = 1;
			if (queue->sends)
				sends[send_count++] = queue;
			else
				receives[receive_count++] = queue;
		}
	}
	for (int i = 0; i < receive_count; i++)
		settle_receives(t, receives[i]);
	for (int i = 0; i < send_count; i++)
		settle_sends(t, sends[i]);
}

/* Sleep until something happened, at the latest until the clock shows `until`, which is less than a second away. */
static void sleep_until_event(struct traffic *t, int64_t until)
{
	int64_t left = until - now();
	struct timespec limit = {0, left > 0 ? left : 0};

	for (uint32_t i = 0; i < t->cq_count; i++)
		t->sleepers[i].revents = 0;
	int ready = ppoll(t->sleepers, t->cq_count + 1, &limit, NULL);

	if (!ready)
		t->oversleep = collie_next_oversleep(t->oversleep, now() - until);
	if (ready <= 0)
		return;
	for (uint32_t i = 0; i < t->cq_count; i++) {
		void *cq, *context;

		if (t->sleepers[i].revents && !t->get_cq_event(t->cqs[i].channel, &cq, &context))
			t->ack_cq_events(cq, 1);
	}
}

static void arm(struct traffic *t)
{
	for (uint32_t i = 0; i < t->cq_count; i++)
		t->cqs[i].cq->context->ops.req_notify_cq(t->cqs[i].cq, 0);
}

/* Find what to sleep on. */
EXPORT void collie_traffic_init(struct traffic *t)
{
	t->oversleep = SHORTEST_LEAD_NANOSECONDS;
	for (uint32_t i = 0; i < t->cq_count; i++) {
		t->sleepers[i].fd = t->cqs[i].fd;
		t->sleepers[i].events = POLLIN;
	}
	t->sleepers[t->cq_count].fd = t->control;
	t->sleepers[t->cq_count].events = POLLIN;
}

/* Find how a new queue is posted to, and fill it if it receives. */
EXPORT void collie_traffic_admit(struct traffic *t, uint32_t number)
{
	struct queue *queue = &t->queues[number];
	struct abi_ops *ops = &queue->target->context->ops;

	queue->post = queue->sends ? ops->post_send : queue->shared ? ops->post_srq_recv : ops->post_recv;
	for (uint32_t n = 0; !queue->sends && queue->alive && n < queue->limit; n++)
		post(t, queue);
}

/* Send no echoes, until work requests for them are set anew. */
EXPORT void collie_traffic_end_echoes(struct traffic *t)
{
	for (uint32_t i = 0; i < t->pair_count; i++)
		t->pairs[i].echo = NULL;
}

/* Fill the receive queue of a requester's queue pair for echoes. */
EXPORT void collie_traffic_receive_echoes(struct traffic *t, uint32_t pair, uint32_t count)
{
	receive_echoes(t, &t->pairs[pair], count);
}

EXPORT void collie_traffic_begin(struct traffic *t)
{
	t->sending = 1;
	t->paced = t->waiting_count = t->rounds = t->echo_rounds = t->rounds_out = 0;
	t->every = t->echo_every = 1;
	t->echo_budget = ECHOES;
	t->gap = 0;
	if (t->clock)
		begin_clock(t->clock);
	report_clock(t);
	t->began = t->now = t->reviewed = now();
	for (uint32_t i = 0; i < t->queue_count; i++) {
		struct queue *queue = &t->queues[i];

		if (!queue->sends)
			continue;
		t->rounds_out += queue->alive ? queue->outstanding : 0;
		if (queue->nanoseconds_per_byte) {
			t->paced = 1;
			schedule(t, queue);
		}
		queue->until_posted = queue->until_completed = 1 + i % MOST_EVERY;
		settle_sends(t, queue);
	}
}

/* Rounds that have not completed yet, on queue pairs that still work, and echoes. */
EXPORT uint64_t collie_traffic_outstanding(const struct traffic *t)
{
	uint64_t outstanding = t->echoes_out;

	for (uint32_t i = 0; i < t->queue_count; i++)
		if (t->queues[i].sends && t->queues[i].alive)
			outstanding += t->queues[i].outstanding;
	return outstanding;
}

static int round_over_queues(struct traffic *t)
{
	struct abi_wc completions[POLL_BATCH];
	uint64_t stamps[POLL_BATCH];
	int found = 0;

	for (uint32_t i = 0; i < t->cq_count; i++) {
		struct abi_object *cq = t->cqs[i].cq;
		int stamped = t->cqs[i].stamped;
		int count = stamped ? collie_poll_stamped((struct abi_cq_ex *)cq, POLL_BATCH, completions, stamps) :
				      cq->context->ops.poll_cq(cq, POLL_BATCH, completions);

		if (count < 0)
			return count;
		if (!count)
			continue;
		found += count;
		t->fresh = 0;
		if (t->busy++ % POLLS_PER_LOOK == 0)
			look(t);
		account(t, completions, stamped ? stamps : NULL, count);
	}
	return found;
}

/* Drive traffic until a command waits. With a limit on CLOCK_MONOTONIC in nanoseconds (0: none), drive it until nothing
 * is outstanding and no completion queue holds a completion, or that moment has come. Returns 1 if it drained, 0 if not,
 * or the library's negative answer where polling failed. */
EXPORT int collie_traffic_run(struct traffic *t, int64_t drain_until)
{
	int64_t busy_at = now();
	int armed = 0;

	while (!__atomic_load_n(&t->words[ATTENTION], __ATOMIC_RELAXED)) {
		int64_t idle = IDLE_MILLISECONDS * 1000000;
		int found = round_over_queues(t), paced = t->paced && t->sending;

		if (found < 0)
			return found;
		if (paced) {
			t->now = now();
			t->fresh = 1;
			found += post_due(t);
			if (t->waiting_count && t->waiting[0]->due - t->now < idle)
				idle = t->waiting[0]->due - t->now;
		}
		review(t);
		t->words[ITERATIONS]++;
		if (drain_until && !found && !collie_traffic_outstanding(t))
			return 1;
		if (drain_until && now() > drain_until)
			return 0;
		if (found) {
			busy_at = t->now;
			continue;
		}
		t->busy = 0;
		t->words[IDLE_POLLS]++;
		int64_t spin = t->rounds_out == 1 && t->spin < SPIN_ALONE_NANOSECONDS ? SPIN_ALONE_NANOSECONDS : t->spin;

		if (idle <= lead(t) || (spin && now() - busy_at < spin)) {
			sched_yield(); /* on a host of few CPUs, the kernel's half of a software device needs this one */
			continue;
		}
		/* A completion may have come before arming and raises no event: poll once more before sleeping. */
		if (armed)
			sleep_until_event(t, (paced ? t->now : now()) + idle - lead(t));
		else
			arm(t);
		armed = !armed;
	}
	return 0;
}
