/* The traffic loop of collie/agent/traffic.py in C: the same rules, the same shared words, the same encoding of work
 * request ids. Python makes the verbs objects and lays out the work requests (native_traffic.py); this file only posts
 * and polls. It links against nothing but libc: the library's functions come as pointers. */

#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "verbs_abi.h"

#define EXPORT __attribute__((visibility("default")))

/* Which source this object was compiled from: what carries it looks for these bytes. */
EXPORT const char collie_source[] = "collie-source:" SOURCE_DIGEST;

/* As in totals.py. */
enum { ATTENTION, ITERATIONS, IDLE_POLLS, QUEUE_EMPTY, POSTS, FLUSHED, POST_ERRORS, QUEUE_OUTSTANDING, QUEUE_LIMIT };
enum { STRAGGLERS = 9, ERRORS, ERROR_WORDS = 32 };
enum { POSTED_MESSAGES, POSTED_BYTES, COMPLETED_MESSAGES, DELIVERED_MESSAGES, DELIVERED_BYTES, FAILED_QPS };
enum { RETURNED_MESSAGES = 6, RETURNED_BYTES = 7 };

/* As in queues.py. */
enum { RECEIVE, SEND, SEND_END };
enum { KIND_MASK = 3, GENERATION_SHIFT = 2, QUEUE_SHIFT = 6, BYTES_SHIFT = 26 };
enum { GENERATION_MASK = (1 << (QUEUE_SHIFT - GENERATION_SHIFT)) - 1 };
enum { QUEUE_MASK = (1 << (BYTES_SHIFT - QUEUE_SHIFT)) - 1 };

enum { POLL_BATCH = 32, IDLE_MILLISECONDS = 50, WC_FLUSHED = 5 };

/* The structures below are as in native_traffic.py, member by member. */

struct proof { /* what a completion of a flow with payload both ways proves to have come back */
	uint64_t bytes;
	uint64_t messages;
};

struct queue {
	struct abi_object *target; /* queue pair, or shared receive queue */
	void **chains;
	const uint64_t *chain_bytes;
	const struct proof *returns;
	int (*post)(void *target, void *wr, void **bad_wr);
	uint64_t *totals; /* words of its flow's end */
	uint64_t *pair_word;
	uint64_t count; /* completions not settled yet, and their bytes */
	uint64_t bytes;
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
};

struct completion_queue {
	struct abi_object *cq;
	void *channel;
	int32_t fd;
	uint32_t unused;
};

struct pair { /* sorted by number; only shared receive queues need it */
	uint64_t *word;
	uint32_t qp_num;
	uint32_t failed;
};

struct traffic {
	uint64_t *words;
	struct queue *queues;
	struct completion_queue *cqs;
	struct pair *pairs;
	struct pollfd *sleepers; /* one per completion queue, then the control descriptor */
	int (*get_cq_event)(void *channel, void **cq, void **cq_context);
	void (*ack_cq_events)(void *cq, unsigned int events);
	uint32_t queue_count;
	uint32_t cq_count;
	uint32_t pair_count;
	uint32_t sending;
	int32_t control;
	uint32_t unused;
};

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

static void end_queue(struct queue *queue)
{
	if (queue->alive) {
		queue->alive = 0;
		queue->totals[FAILED_QPS]++;
	}
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
		if (!t->words[POST_ERRORS]++)
			dprintf(2, "first failed post: %s\n", strerror(error));
		end_queue(queue);
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

static void settle_sends(struct traffic *t, struct queue *queue)
{
	if (queue->count) {
		uint64_t messages = queue->count * queue->messages_per_signal;

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
	while (queue->outstanding < queue->limit && t->sending && queue->alive) {
		queue->outstanding++;
		for (uint32_t n = 0; n < queue->posts; n++) {
			queue->totals[POSTED_BYTES] += queue->chain_bytes[queue->next];
			queue->totals[POSTED_MESSAGES] += queue->batch;
			post(t, queue);
		}
	}
}

static void failed(struct traffic *t, struct queue *queue, const struct abi_wc *wc)
{
	if (wc->status == WC_FLUSHED)
		t->words[FLUSHED]++;
	else
		t->words[ERRORS + (wc->status < ERROR_WORDS ? wc->status : ERROR_WORDS - 1)]++;
	if (!queue->shared) {
		end_queue(queue);
	} else { /* the shared queue serves the other queue pairs still */
		struct pair *pair = find_pair(t, wc->qp_num);

		if (!pair->failed) {
			pair->failed = 1;
			queue->totals[FAILED_QPS]++;
		}
	}
}

static void account(struct traffic *t, const struct abi_wc *completions, int count)
{
	struct queue *receives[POLL_BATCH], *sends[POLL_BATCH];
	int receive_count = 0, send_count = 0;

	for (int i = 0; i < count; i++) {
		const struct abi_wc *wc = &completions[i];
		struct queue *queue = &t->queues[wc->wr_id >> QUEUE_SHIFT & QUEUE_MASK];
		uint32_t kind = wc->wr_id & KIND_MASK;

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
		} else {
			queue->bytes += wc->wr_id >> BYTES_SHIFT;
			queue->outstanding -= kind == SEND_END;
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

static void sleep_until_event(struct traffic *t)
{
	for (uint32_t i = 0; i < t->cq_count; i++)
		t->sleepers[i].revents = 0;
	if (poll(t->sleepers, t->cq_count + 1, IDLE_MILLISECONDS) <= 0)
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

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Find what to sleep on. */
EXPORT void collie_traffic_init(struct traffic *t)
{
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

EXPORT void collie_traffic_begin(struct traffic *t)
{
	t->sending = 1;
	for (uint32_t i = 0; i < t->queue_count; i++)
		if (t->queues[i].sends)
			settle_sends(t, &t->queues[i]);
}

/* Rounds of sends that have not completed yet, on queue pairs that still work. */
EXPORT uint64_t collie_traffic_outstanding(const struct traffic *t)
{
	uint64_t outstanding = 0;

	for (uint32_t i = 0; i < t->queue_count; i++)
		if (t->queues[i].sends && t->queues[i].alive)
			outstanding += t->queues[i].outstanding;
	return outstanding;
}

static int round_over_queues(struct traffic *t)
{
	struct abi_wc completions[POLL_BATCH];
	int found = 0;

	for (uint32_t i = 0; i < t->cq_count; i++) {
		struct abi_object *cq = t->cqs[i].cq;
		int count = cq->context->ops.poll_cq(cq, POLL_BATCH, completions);

		if (count < 0)
			return count;
		found += count;
		account(t, completions, count);
	}
	return found;
}

/* Drive traffic until a command waits. With a limit on CLOCK_MONOTONIC in nanoseconds (0: none), drive it until nothing
 * is outstanding and no completion queue holds a completion, or that moment has come. Returns 1 if it drained, 0 if not,
 * or the library's negative answer where polling failed. */
EXPORT int collie_traffic_run(struct traffic *t, int64_t drain_until)
{
	int armed = 0;

	while (!__atomic_load_n(&t->words[ATTENTION], __ATOMIC_RELAXED)) {
		int found = round_over_queues(t);

		if (found < 0)
			return found;
		t->words[ITERATIONS]++;
		if (drain_until && !found && !collie_traffic_outstanding(t))
			return 1;
		if (drain_until && now() > drain_until)
			return 0;
		if (found)
			continue;
		t->words[IDLE_POLLS]++;
		/* A completion may have come before arming and raises no event: poll once more before sleeping. */
		if (armed)
			sleep_until_event(t);
		else
			arm(t);
		armed = !armed;
	}
	return 0;
}
