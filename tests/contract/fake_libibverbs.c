/* A libibverbs.so.1 in one file: a device "fake0" that delivers within the process. For tests of the data paths.
 *
 * Strict where real devices are: queues have the depth they were created with (a send's slot is free once a later
 * signalled completion was polled), keys and bounds are checked, a receiver without receives holds RC up (or fails it with
 * rnr_retry 0) and drops UC and UD, objects in use cannot be destroyed, and completion queues that overflow are counted.
 * A round of work is done whenever a completion queue is polled. Several threads may call.
 *
 * A test can give the device a clock that stamps completions, with the flaws of real ones (enum feature). Such a completion
 * queue has each function that it was made for and no other, and can only be polled through them. */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "verbs_abi.h"

enum { WRITE, WRITE_IMM, SEND, SEND_IMM, READ, CMP_SWP, FETCH_ADD };
enum { RC = 2, UC = 3, UD = 4 };
enum { RESET, INIT, RTR, RTS, SQD, SQE, ERR };
enum { SUCCESS = 0, LOCAL_LENGTH = 1, PROTECTION = 4, FLUSHED = 5, REMOTE_ACCESS = 10, RNR = 13 };
enum { FENCE = 1, SIGNALED = 2, SOLICITED = 4, INLINE = 8 };
enum { ROUND = 8, GRH = 40, MAX_SGE = 16, MAX_INLINE = 256, MAX_MESSAGE = 1 << 20, MAX = 4096 };

struct sge { uint64_t addr; uint32_t length, lkey; };
struct send_wr {
	uint64_t wr_id;
	struct send_wr *next;
	struct sge *sg_list;
	int num_sge;
	uint32_t opcode, send_flags, imm_data;
	union {
		struct { uint64_t remote_addr; uint32_t rkey; } rdma;
		struct { uint64_t remote_addr, compare_add, swap; uint32_t rkey; } atomic;
		struct { void *ah; uint32_t remote_qpn, remote_qkey; } ud;
	} wr;
};
struct recv_wr { uint64_t wr_id; struct recv_wr *next; struct sge *sg_list; int num_sge; };

struct cap { uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data; };
struct qp_init_attr { void *qp_context; struct cq *send_cq, *recv_cq; struct srq *srq; struct cap cap; uint32_t qp_type; int sq_sig_all; };
struct ah_attr { uint8_t dgid[16]; uint32_t flow_label; uint8_t sgid_index, hop_limit, traffic_class; uint16_t dlid; uint8_t rest[5]; };
struct qp_attr {
	uint32_t qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn, dest_qp_num, qp_access_flags;
	struct cap cap;
	uint8_t ah_attr[32], alt_ah_attr[32];
	uint16_t pkey_index, alt_pkey_index;
	uint8_t en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry;
};
struct srq_init_attr { void *srq_context; uint32_t max_wr, max_sge, srq_limit; };

struct pd { struct abi_context *context; uint32_t handle; int users; };
struct mr { struct abi_context *context; struct pd *pd; void *addr; size_t length; uint32_t handle, lkey, rkey; };
struct channel { struct abi_context *context; int fd, refcnt; int write_fd; };
struct cq {
	struct abi_cq_ex ex; /* of which a plain one has the head of struct ibv_cq alone */
	int armed, taken, acknowledged, users;
	int stamped, polling;
	uint32_t head, tail;
	struct entry { struct abi_wc wc; struct qp *qp; uint64_t frees, stamp; int64_t at; } *entries;
};
struct receive { uint64_t wr_id; int num_sge; struct sge sge[MAX_SGE]; };
struct ring { struct receive *slots; uint32_t size, max_sge, head, tail; };
struct srq { struct abi_context *context; void *srq_context; struct pd *pd; uint32_t handle; struct ring ring; int users; };
struct sending { struct send_wr wr; struct sge sge[MAX_SGE]; };
struct qp {
	struct abi_context *context;
	void *qp_context;
	struct pd *pd;
	struct cq *send_cq, *recv_cq;
	struct srq *srq;
	uint32_t handle, qp_num, state, qp_type;
	struct cap cap;
	int sq_sig_all;
	uint32_t dest, qkey;
	uint8_t rnr_retry;
	struct sending *sends;
	uint64_t posted, done, freed; /* work requests: posted, carried out, slots free again */
	struct ring ring;
};

static char device_name[] = "fake0";
static void *devices[] = { device_name, NULL };
static struct qp *qps[MAX];
static struct mr *mrs[MAX];
static void *ahs[MAX];
static int live, overflows, held, numbered;
static char message[MAX_MESSAGE];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void unlock(const int *unused)
{
	(void)unused;
	pthread_mutex_unlock(&mutex);
}

/* Holds the mutex to the end of the block. */
#define LOCKED \
	__attribute__((cleanup(unlock), unused)) int locked = pthread_mutex_lock(&mutex)

/* For the test: objects not destroyed yet, completions lost. */
int fake_live(void) { return live; }
int fake_overflows(void) { return overflows; }

/* For the test: let a queue pair take no work request any more. */
void fake_shrink(uint32_t number) { qps[number]->cap.max_send_sge = 0; }

/* For the test: messages that arrived with immediate data other than 0. */
int fake_numbered(void) { return numbered; }

/* For the test: carry out nothing while held. */
void fake_hold(int hold) { held = hold; }

/* For the test: what devices opened from now on have of a clock, and which of it does not work. */
enum feature {
	STAMPS = 1,	    /* it states a mask and a frequency */
	CLOCK = 2,	    /* it has query_rt_values */
	EXTENDED_CQ = 4,    /* it has create_cq_ex */
	CLOCK_FAILS = 8,    /* query_rt_values fails, as where the clock is not mapped */
	CLOCK_IN_SECONDS = 16,
	CQ_FAILS = 32,	    /* create_cq_ex fails */
	QP_FAILS = 64,	    /* queue pairs on such completion queues fail, as where mlx5 has the time of day alone */
	OLD = 128,	    /* the library is older than these verbs: its size does not cover them */
	OTHER_STAMPS = 256, /* completions are stamped with another clock */
	OLD_STAMPS = 512,   /* completions are stamped a second too early */
	NOT_EXTENDED = 1024, /* the device's context is none of those that have more verbs before it */
};
static enum feature features;
void fake_features(int wanted) { features = wanted; }

/* For the test: the clock's mask, the frequency that the device states in kHz, by how much the true one is higher, and what
 * it shows now. */
static struct { uint64_t mask, khz; double khz_off; uint64_t first; int64_t since; } device_clock = { UINT64_MAX, 156250, 0, 0, 0 };
static int64_t late, slow, clock_reads;

static int64_t monotonic(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

void fake_clock(uint64_t mask, uint64_t khz, double ppm_off, uint64_t first)
{
	device_clock.mask = mask;
	device_clock.khz = khz;
	device_clock.khz_off = khz * ppm_off / 1e6;
	device_clock.first = first;
	device_clock.since = monotonic();
}

static uint64_t raw_clock(int64_t at)
{
	double ticks = (at - device_clock.since) * ((device_clock.khz + device_clock.khz_off) / 1e6);

	return (device_clock.first + (uint64_t)(int64_t)ticks) & device_clock.mask;
}

/* For the test: a completion can be polled so many nanoseconds after it is there. */
void fake_late(int64_t nanoseconds) { late = nanoseconds; }

/* For the test: let the device answer so many nanoseconds after it has read its clock. */
void fake_slow_clock(int64_t nanoseconds) { slow = nanoseconds; }

/* For the test: how often the clock has been read. */
int64_t fake_clock_reads(void) { return clock_reads; }

static void *make(size_t size)
{
	live++;
	return calloc(1, size);
}

static int end(void *object)
{
	live--;
	free(object);
	return 0;
}

static void *refuse(int error)
{
	errno = error;
	return NULL;
}

static struct abi_wc *complete(struct cq *cq, struct qp *qp, uint64_t wr_id, int status, uint32_t bytes, uint64_t frees)
{
	static struct abi_wc nowhere;

	if (cq->tail - cq->head == (uint32_t)cq->ex.cqe) {
		overflows++;
		return &nowhere;
	}
	struct entry *entry = &cq->entries[cq->tail++ % cq->ex.cqe];

	memset(entry, 0, sizeof(*entry));
	entry->wc.wr_id = wr_id;
	entry->wc.status = status;
	entry->wc.byte_len = bytes;
	entry->wc.qp_num = qp->qp_num;
	entry->qp = qp;
	entry->frees = frees;
	entry->at = cq->stamped || late ? monotonic() : 0;
	if (cq->stamped)
		entry->stamp = features & OTHER_STAMPS ? (uint64_t)entry->at << 20 :
							 raw_clock(entry->at - (features & OLD_STAMPS ? 1000000000 : 0));
	if (cq->armed && write(((struct channel *)cq->ex.channel)->write_fd, &cq, sizeof(cq)) == sizeof(cq))
		cq->armed = 0;
	return &entry->wc;
}

static struct mr *region(uint32_t key, uint64_t address, uint64_t length)
{
	struct mr *mr = key && key < MAX ? mrs[key] : NULL;

	if (!mr || address < (uint64_t)mr->addr || address + length > (uint64_t)mr->addr + mr->length)
		return NULL;
	return mr;
}

/* Copy between the message and a scatter list; returns a completion status. */
static int transfer(struct sge *sge, int count, uint32_t skip, uint32_t length, int gather)
{
	uint32_t done = 0;

	for (int i = 0; i < count; i++) {
		uint32_t skipped = skip < sge[i].length ? skip : sge[i].length, part = sge[i].length - skipped;

		if (!region(sge[i].lkey, sge[i].addr, sge[i].length))
			return PROTECTION;
		skip -= skipped;
		part = part < length - done ? part : length - done;
		if (gather)
			memcpy(message + done, (char *)sge[i].addr + skipped, part);
		else
			memcpy((char *)sge[i].addr + skipped, message + done, part);
		done += part;
	}
	return done == length ? SUCCESS : LOCAL_LENGTH;
}

static void flush(struct qp *qp)
{
	qp->state = ERR;
	while (qp->done < qp->posted) {
		uint64_t wr_id = qp->sends[qp->done++ % qp->cap.max_send_wr].wr.wr_id;

		complete(qp->send_cq, qp, wr_id, FLUSHED, 0, qp->done);
	}
	while (qp->ring.head < qp->ring.tail)
		complete(qp->recv_cq, qp, qp->ring.slots[qp->ring.head++ % qp->ring.size].wr_id, FLUSHED, 0, 0);
}

static void fail(struct qp *qp, struct sending *item, int status)
{
	complete(qp->send_cq, qp, item->wr.wr_id, status, 0, ++qp->done);
	flush(qp);
}

/* Returns 0 when the message must wait for a receive; *status otherwise says how it went. */
static int receive(struct qp *from, struct qp *to, uint32_t length, const struct send_wr *wr, int *status)
{
	struct ring *ring = to->srq ? &to->srq->ring : &to->ring;
	uint32_t header = to->qp_type == UD ? GRH : 0;

	*status = SUCCESS;
	if (ring->head == ring->tail) {
		if (from->qp_type != RC)
			return 1; /* lost */
		*status = RNR;
		return from->rnr_retry == 0;
	}
	struct receive *slot = &ring->slots[ring->head++ % ring->size];

	if (wr->opcode != WRITE_IMM)
		*status = transfer(slot->sge, slot->num_sge, header, length, 0);
	struct abi_wc *wc = complete(to->recv_cq, to, slot->wr_id, *status, length + header, 0);

	if (wr->opcode == SEND_IMM || wr->opcode == WRITE_IMM) {
		wc->wc_flags = ABI_WC_WITH_IMM;
		wc->imm_data = wr->imm_data;
		numbered += wr->imm_data != 0;
	}
	return 1;
}

static int carry_out(struct qp *qp, struct sending *item, int *status)
{
	struct send_wr *wr = &item->wr;
	uint32_t number = qp->qp_type == UD ? wr->wr.ud.remote_qpn : qp->dest, length = 0;
	struct qp *to = number < MAX ? qps[number] : NULL;
	int immediate = wr->opcode == SEND || wr->opcode == SEND_IMM || wr->opcode == WRITE_IMM;

	for (int i = 0; i < wr->num_sge; i++)
		length += item->sge[i].length;
	*status = SUCCESS;
	if (wr->opcode == READ || wr->opcode >= CMP_SWP) {
		uint64_t *word = (uint64_t *)wr->wr.rdma.remote_addr, value;
		uint32_t key = wr->opcode == READ ? wr->wr.rdma.rkey : wr->wr.atomic.rkey;

		if (!region(key, wr->wr.rdma.remote_addr, length)) {
			*status = REMOTE_ACCESS;
			return 1;
		}
		memcpy(message, word, length);
		memcpy(&value, message, sizeof(value));
		if (wr->opcode == FETCH_ADD)
			*word = value + wr->wr.atomic.compare_add;
		else if (wr->opcode == CMP_SWP && value == wr->wr.atomic.compare_add)
			*word = wr->wr.atomic.swap;
		*status = transfer(item->sge, wr->num_sge, 0, length, 0);
		return 1;
	}
	*status = transfer(item->sge, wr->num_sge, 0, length, 1);
	if (*status)
		return 1;
	if (!to || to->state < RTR || to->state == ERR)
		return qp->qp_type != RC; /* nobody answers: RC goes on trying */
	if (wr->opcode <= WRITE_IMM) {
		if (!region(wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, length)) {
			*status = REMOTE_ACCESS;
			return 1;
		}
		memcpy((void *)wr->wr.rdma.remote_addr, message, length);
	}
	if (qp->qp_type == UD && wr->wr.ud.remote_qkey != to->qkey)
		return 1;
	return immediate ? receive(qp, to, length, wr, status) : 1;
}

static void work(void)
{
	for (int n = 0; !held && n < MAX; n++) {
		struct qp *qp = qps[n];

		for (int i = 0; qp && i < ROUND && qp->state == RTS && qp->done < qp->posted; i++) {
			struct sending *item = &qp->sends[qp->done % qp->cap.max_send_wr];
			int status;

			if (!carry_out(qp, item, &status))
				break;
			if (status) {
				fail(qp, item, status);
				break;
			}
			qp->done++;
			if (qp->sq_sig_all || item->wr.send_flags & SIGNALED)
				complete(qp->send_cq, qp, item->wr.wr_id, SUCCESS, 0, qp->done);
		}
	}
}

/* Take the next completion that can be polled, if any. */
static struct entry *take(struct cq *cq)
{
	struct entry *entry = &cq->entries[cq->head % cq->ex.cqe];

	if (cq->head == cq->tail || (late && monotonic() < entry->at + late))
		return NULL;
	cq->head++;
	if (entry->frees && entry->qp)
		entry->qp->freed = entry->frees;
	return entry;
}

static int poll_cq(void *object, int count, void *out)
{
	LOCKED;
	struct cq *cq = object;
	struct abi_wc *wc = out;
	struct entry *entry;
	int found = 0;

	if (cq->stamped)
		return -EINVAL;
	work();
	for (; found < count && (entry = take(cq)); found++)
		wc[found] = entry->wc;
	return found;
}

static struct entry *polled(struct abi_cq_ex *cq)
{
	struct cq *polled = (struct cq *)cq;

	if (!polled->polling)
		abort();
	return &polled->entries[(polled->head - 1) % polled->ex.cqe];
}

static int next_poll(struct abi_cq_ex *object)
{
	struct cq *cq = (struct cq *)object;
	struct entry *entry = take(cq);

	if (!entry)
		return ENOENT;
	cq->ex.wr_id = entry->wc.wr_id;
	cq->ex.status = entry->wc.status;
	return 0;
}

/* Holds the mutex up to end_poll if it found something, so nothing else can be called meanwhile. */
static int start_poll(struct abi_cq_ex *object, struct abi_poll_cq_attr *attr)
{
	struct cq *cq = (struct cq *)object;

	if (attr->comp_mask)
		return EINVAL;
	pthread_mutex_lock(&mutex);
	if (cq->polling++)
		abort();
	work();
	if (!next_poll(object))
		return 0;
	cq->polling = 0;
	pthread_mutex_unlock(&mutex);
	return ENOENT;
}

static void end_poll(struct abi_cq_ex *object)
{
	struct cq *cq = (struct cq *)object;

	if (!cq->polling--)
		abort();
	pthread_mutex_unlock(&mutex);
}

static uint32_t read_byte_len(struct abi_cq_ex *cq) { return polled(cq)->wc.byte_len; }
static uint32_t read_imm_data(struct abi_cq_ex *cq) { return polled(cq)->wc.imm_data; }
static uint32_t read_qp_num(struct abi_cq_ex *cq) { return polled(cq)->wc.qp_num; }
static unsigned int read_wc_flags(struct abi_cq_ex *cq) { return polled(cq)->wc.wc_flags; }
static uint64_t read_completion_ts(struct abi_cq_ex *cq) { return polled(cq)->stamp; }

static int req_notify_cq(void *cq, int solicited_only)
{
	(void)solicited_only;
	((struct cq *)cq)->armed = 1;
	return 0;
}

static int is_address_handle(const void *ah)
{
	for (int n = 0; n < MAX; n++)
		if (ahs[n] && ahs[n] == ah)
			return 1;
	return 0;
}

static int post_send(void *object, void *first, void **bad)
{
	LOCKED;
	struct qp *qp = object;

	for (struct send_wr *wr = first; wr; wr = wr->next) {
		struct sending *item = &qp->sends[qp->posted % qp->cap.max_send_wr];
		uint32_t length = 0;

		*bad = wr;
		if (qp->state < RTS || wr->num_sge > (int)qp->cap.max_send_sge)
			return EINVAL;
		if (qp->posted - qp->freed == qp->cap.max_send_wr)
			return ENOMEM;
		for (int i = 0; i < wr->num_sge; i++)
			length += wr->sg_list[i].length;
		if (wr->send_flags & INLINE && length > qp->cap.max_inline_data)
			return EINVAL;
		if (qp->qp_type == UD && !is_address_handle(wr->wr.ud.ah))
			return EINVAL;
		item->wr = *wr;
		memcpy(item->sge, wr->sg_list, wr->num_sge * sizeof(struct sge));
		qp->posted++;
	}
	if (qp->state == ERR)
		flush(qp);
	return 0;
}

static int post_receives(struct ring *ring, void *first, void **bad)
{
	for (struct recv_wr *wr = first; wr; wr = wr->next) {
		struct receive *slot = &ring->slots[ring->tail % ring->size];

		*bad = wr;
		if (wr->num_sge > (int)ring->max_sge)
			return EINVAL;
		if (ring->tail - ring->head == ring->size)
			return ENOMEM;
		slot->wr_id = wr->wr_id;
		slot->num_sge = wr->num_sge;
		memcpy(slot->sge, wr->sg_list, wr->num_sge * sizeof(struct sge));
		ring->tail++;
	}
	return 0;
}

static int post_recv(void *object, void *first, void **bad)
{
	LOCKED;
	struct qp *qp = object;
	int error = post_receives(&qp->ring, first, bad);

	if (qp->state == ERR)
		flush(qp);
	return error;
}

static int post_srq_recv(void *object, void *first, void **bad)
{
	LOCKED;
	return post_receives(&((struct srq *)object)->ring, first, bad);
}

void **ibv_get_device_list(int *count)
{
	if (count)
		*count = 1;
	return devices;
}

void ibv_free_device_list(void **list) { (void)list; }
const char *ibv_get_device_name(void *device) { return device; }

static struct cq *make_cq(struct abi_context *context, int cqe, void *user, struct channel *channel)
{
	if (cqe > 4096)
		return refuse(EINVAL);
	struct cq *cq = make(sizeof(*cq));

	cq->ex.context = context;
	cq->ex.channel = channel;
	cq->ex.cq_context = user;
	cq->ex.cqe = cqe;
	cq->entries = calloc(cqe, sizeof(*cq->entries));
	channel->refcnt++;
	return cq;
}

static struct abi_cq_ex *create_cq_ex(struct abi_context *context, struct abi_cq_init_attr_ex *attr)
{
	int stamps = attr->wc_flags & ABI_WC_EX_WITH_COMPLETION_TIMESTAMP;

	if (features & CQ_FAILS || attr->comp_mask || (stamps && !(features & STAMPS)))
		return refuse(EOPNOTSUPP);
	struct cq *cq = make_cq(context, attr->cqe, attr->cq_context, attr->channel);

	if (!cq)
		return NULL;
	cq->stamped = 1;
	cq->ex.start_poll = start_poll;
	cq->ex.next_poll = next_poll;
	cq->ex.end_poll = end_poll;
	cq->ex.read_wc_flags = read_wc_flags;
	cq->ex.read_byte_len = attr->wc_flags & ABI_WC_EX_WITH_BYTE_LEN ? read_byte_len : NULL;
	cq->ex.read_imm_data = attr->wc_flags & ABI_WC_EX_WITH_IMM ? read_imm_data : NULL;
	cq->ex.read_qp_num = attr->wc_flags & ABI_WC_EX_WITH_QP_NUM ? read_qp_num : NULL;
	cq->ex.read_completion_ts = stamps ? read_completion_ts : NULL;
	return &cq->ex;
}

static int query_device_ex(struct abi_context *context, const void *input, struct abi_device_attr_ex *attr, size_t size)
{
	(void)context;
	if (input || size != sizeof(*attr))
		return EINVAL;
	memset(attr, 0, size);
	attr->completion_timestamp_mask = features & STAMPS ? device_clock.mask : 0;
	attr->hca_core_clock = features & STAMPS ? device_clock.khz : 0;
	return 0;
}

static int query_rt_values(struct abi_context *context, struct abi_values_ex *values)
{
	(void)context;
	if (values->comp_mask != ABI_VALUES_MASK_RAW_CLOCK)
		return EINVAL;
	clock_reads++;
	if (features & CLOCK_FAILS)
		return EOPNOTSUPP;
	values->raw_clock.tv_sec = features & CLOCK_IN_SECONDS ? 1 : 0;
	values->raw_clock.tv_nsec = raw_clock(monotonic());
	usleep(slow / 1000);
	return 0;
}

struct abi_context *ibv_open_device(void *device)
{
	struct abi_verbs_context *verbs = make(sizeof(*verbs));
	struct abi_context *context = &verbs->context;

	verbs->sz = features & OLD ? 0 : sizeof(*verbs);
	verbs->query_device_ex = query_device_ex;
	verbs->create_cq_ex = features & EXTENDED_CQ ? create_cq_ex : NULL;
	verbs->query_rt_values = features & CLOCK ? query_rt_values : NULL;
	context->abi_compat = features && !(features & NOT_EXTENDED) ? ABI_EXTENDED : NULL;
	context->device = device;
	context->ops.poll_cq = poll_cq;
	context->ops.req_notify_cq = req_notify_cq;
	context->ops.post_srq_recv = post_srq_recv;
	context->ops.post_send = post_send;
	context->ops.post_recv = post_recv;
	return context;
}

int ibv_close_device(void *context) { return end((char *)context - offsetof(struct abi_verbs_context, context)); }

int ibv_query_device(void *context, uint32_t *attr)
{
	static const struct { int offset, value; } limits[] = {
		{ 108, 64 },  { 112, 1024 }, { 120, MAX_SGE }, { 128, 64 },	{ 132, 4096 }, { 136, 1 << 20 },
		{ 144, 16 },  { 156, 16 }, { 164, 1 },   { 212, 16 },      { 216, 1024 }, { 220, MAX_SGE },
	};

	(void)context;
	memset(attr, 0, 232);
	for (unsigned int i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		attr[limits[i].offset / 4] = limits[i].value;
	return 0;
}

int ibv_query_port(void *context, uint8_t port, uint32_t *attr)
{
	(void)context;
	if (port != 1)
		return EINVAL;
	attr[0] = 4;		 /* ACTIVE */
	attr[1] = attr[2] = 5; /* 4096 */
	return 0;
}

struct pd *ibv_alloc_pd(struct abi_context *context)
{
	struct pd *pd = make(sizeof(*pd));

	pd->context = context;
	return pd;
}

int ibv_dealloc_pd(struct pd *pd) { return pd->users ? EBUSY : end(pd); }

struct mr *ibv_reg_mr(struct pd *pd, void *addr, size_t length, int access)
{
	LOCKED;
	(void)access;
	for (uint32_t key = 1; key < MAX; key++) {
		if (mrs[key])
			continue;
		struct mr *mr = mrs[key] = make(sizeof(*mr));

		*mr = (struct mr){ pd->context, pd, addr, length, 0, key, key };
		pd->users++;
		return mr;
	}
	return refuse(ENOMEM);
}

int ibv_dereg_mr(struct mr *mr)
{
	LOCKED;
	mr->pd->users--;
	mrs[mr->lkey] = NULL;
	return end(mr);
}

struct channel *ibv_create_comp_channel(struct abi_context *context)
{
	struct channel *channel = make(sizeof(*channel));
	int ends[2];

	if (pipe(ends))
		return refuse(errno);
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	channel->context = context;
	channel->fd = ends[0];
	channel->write_fd = ends[1];
	return channel;
}

int ibv_destroy_comp_channel(struct channel *channel)
{
	if (channel->refcnt)
		return EBUSY;
	close(channel->fd);
	close(channel->write_fd);
	return end(channel);
}

struct cq *ibv_create_cq(struct abi_context *context, int cqe, void *user, struct channel *channel, int vector)
{
	(void)vector;
	return make_cq(context, cqe, user, channel);
}

int ibv_destroy_cq(struct cq *cq)
{
	if (cq->users || cq->taken != cq->acknowledged)
		return EBUSY;
	((struct channel *)cq->ex.channel)->refcnt--;
	free(cq->entries);
	return end(cq);
}

int ibv_get_cq_event(struct channel *channel, struct cq **cq, void **context)
{
	if (read(channel->fd, cq, sizeof(*cq)) != sizeof(*cq))
		return -1;
	(*cq)->taken++;
	*context = (*cq)->ex.cq_context;
	return 0;
}

void ibv_ack_cq_events(struct cq *cq, unsigned int events) { cq->acknowledged += events; }

static struct ring make_ring(uint32_t size, uint32_t max_sge)
{
	return (struct ring){ calloc(size, sizeof(struct receive)), size, max_sge, 0, 0 };
}

struct srq *ibv_create_srq(struct pd *pd, struct srq_init_attr *attr)
{
	struct srq *srq = make(sizeof(*srq));

	srq->context = pd->context;
	srq->pd = pd;
	srq->ring = make_ring(attr->max_wr, attr->max_sge);
	pd->users++;
	return srq;
}

int ibv_destroy_srq(struct srq *srq)
{
	if (srq->users)
		return EBUSY;
	srq->pd->users--;
	free(srq->ring.slots);
	return end(srq);
}

struct qp *ibv_create_qp(struct pd *pd, struct qp_init_attr *attr)
{
	LOCKED;
	if (attr->cap.max_send_sge > MAX_SGE || attr->cap.max_recv_sge > MAX_SGE || attr->cap.max_inline_data > MAX_INLINE)
		return refuse(EINVAL);
	if (features & QP_FAILS && (attr->send_cq->stamped || attr->recv_cq->stamped))
		return refuse(EOPNOTSUPP);
	for (uint32_t number = 1; number < MAX; number++) {
		if (qps[number])
			continue;
		struct qp *qp = qps[number] = make(sizeof(*qp));

		qp->context = pd->context;
		qp->pd = pd;
		qp->send_cq = attr->send_cq;
		qp->recv_cq = attr->recv_cq;
		qp->srq = attr->srq;
		qp->qp_num = number;
		qp->qp_type = attr->qp_type;
		qp->cap = attr->cap;
		qp->sq_sig_all = attr->sq_sig_all;
		qp->sends = calloc(attr->cap.max_send_wr, sizeof(*qp->sends));
		qp->ring = make_ring(attr->cap.max_recv_wr, attr->cap.max_recv_sge);
		pd->users++;
		qp->send_cq->users++;
		qp->recv_cq->users++;
		if (qp->srq)
			qp->srq->users++;
		return qp;
	}
	return refuse(ENOMEM);
}

int ibv_modify_qp(struct qp *qp, struct qp_attr *attr, int mask)
{
	LOCKED;
	static const int required[5][4] = {
		[RC] = { 0, 0x39, 0x121181 | 0x8000, 0x12e01 },
		[UC] = { 0, 0x39, 0x101181, 0x10001 },
		[UD] = { 0, 0x71, 0x1, 0x10001 },
	};

	if (!(mask & 1))
		return EINVAL;
	if (attr->qp_state == ERR) {
		if (qp->state == RESET)
			return EINVAL;
		flush(qp);
		return 0;
	}
	if (attr->qp_state == RESET) {
		qp->state = RESET;
		qp->posted = qp->done = qp->freed = qp->ring.head = qp->ring.tail = 0;
		return 0;
	}
	if (attr->qp_state != qp->state + 1 || attr->qp_state > RTS || mask != required[qp->qp_type][attr->qp_state])
		return EINVAL;
	qp->state = attr->qp_state;
	if (mask & 1 << 6)
		qp->qkey = attr->qkey;
	if (mask & 1 << 20)
		qp->dest = attr->dest_qp_num;
	if (mask & 1 << 11)
		qp->rnr_retry = attr->rnr_retry;
	return 0;
}

int ibv_destroy_qp(struct qp *qp)
{
	LOCKED;
	for (struct cq *cq = qp->send_cq; cq; cq = cq == qp->recv_cq ? NULL : qp->recv_cq)
		for (uint32_t i = cq->head; i != cq->tail; i++)
			if (cq->entries[i % cq->ex.cqe].qp == qp)
				cq->entries[i % cq->ex.cqe].qp = NULL;
	qps[qp->qp_num] = NULL;
	qp->pd->users--;
	qp->send_cq->users--;
	qp->recv_cq->users--;
	if (qp->srq)
		qp->srq->users--;
	free(qp->sends);
	free(qp->ring.slots);
	return end(qp);
}

struct pd **ibv_create_ah(struct pd *pd, struct ah_attr *attr)
{
	LOCKED;
	struct { struct abi_context *context; struct pd *pd; uint32_t handle; } *ah = make(sizeof(*ah));

	(void)attr;
	ah->context = pd->context;
	ah->pd = pd;
	pd->users++;
	for (int n = 0; n < MAX; n++) {
		if (!ahs[n]) {
			ahs[n] = ah;
			break;
		}
	}
	return (void *)ah;
}

int ibv_destroy_ah(struct pd **ah)
{
	LOCKED;
	ah[1]->users--;
	for (int n = 0; n < MAX; n++)
		if (ahs[n] == ah)
			ahs[n] = NULL;
	return end(ah);
}
