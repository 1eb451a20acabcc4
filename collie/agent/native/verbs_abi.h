/* What the traffic loop needs of libibverbs' ABI (libibverbs.so.1, symbol version IBVERBS_1.1), so that compiling it
 * takes a C compiler and libc headers alone. A test compares every size and offset with <infiniband/verbs.h>.
 * Objects of the library are reached by their heads only; their length is the library's own business. Those with a
 * mutex within have the length that this machine's libc gives it. */
#ifndef COLLIE_VERBS_ABI_H
#define COLLIE_VERBS_ABI_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* struct ibv_context_ops: 32 entries, of which the data path calls five. */
struct abi_ops {
	void *unused_before_poll_cq[11];
	int (*poll_cq)(void *cq, int entries, void *wc);
	int (*req_notify_cq)(void *cq, int solicited_only);
	void *unused_before_post_srq_recv[7];
	int (*post_srq_recv)(void *srq, void *wr, void **bad_wr);
	void *unused_before_post_send[4];
	int (*post_send)(void *qp, void *wr, void **bad_wr);
	int (*post_recv)(void *qp, void *wr, void **bad_wr);
	void *unused_after_post_recv[5];
};

/* struct ibv_context */
struct abi_context {
	void *device;
	struct abi_ops ops;
	int cmd_fd;
	int async_fd;
	int num_comp_vectors;
	pthread_mutex_t mutex;
	void *abi_compat; /* ABI_EXTENDED: it lies within a struct verbs_context */
};

#define ABI_EXTENDED ((void *)UINTPTR_MAX)

/* Head of struct ibv_qp, ibv_srq and ibv_cq alike. */
struct abi_object {
	struct abi_context *context;
};

/* Head of struct ibv_send_wr. */
struct abi_send_wr {
	uint64_t wr_id;
	struct abi_send_wr *next;
	void *sg_list;
	int32_t num_sge;
	uint32_t opcode;
	uint32_t send_flags;
	uint32_t imm_data;
};

/* IBV_WC_WITH_IMM, and opcodes of enum ibv_wr_opcode. */
enum { ABI_WC_WITH_IMM = 2, ABI_WR_SEND = 2, ABI_WR_SEND_WITH_IMM };

/* struct ibv_wc */
struct abi_wc {
	uint64_t wr_id;
	uint32_t status;
	uint32_t opcode;
	uint32_t vendor_err;
	uint32_t byte_len;
	uint32_t imm_data;
	uint32_t qp_num;
	uint32_t src_qp;
	uint32_t wc_flags;
	uint16_t pkey_index;
	uint16_t slid;
	uint8_t sl;
	uint8_t dlid_path_bits;
};

/* struct ibv_poll_cq_attr */
struct abi_poll_cq_attr {
	uint32_t comp_mask;
};

/* Head of struct ibv_cq_ex. A function that reads is set only if the queue was made with its flag. */
struct abi_cq_ex {
	struct abi_context *context;
	void *channel;
	void *cq_context;
	uint32_t handle;
	int cqe;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t comp_events_completed;
	uint32_t async_events_completed;
	uint32_t comp_mask;
	uint32_t status;
	uint64_t wr_id;
	int (*start_poll)(struct abi_cq_ex *cq, struct abi_poll_cq_attr *attr);
	int (*next_poll)(struct abi_cq_ex *cq);
	void (*end_poll)(struct abi_cq_ex *cq);
	uint32_t (*read_opcode)(struct abi_cq_ex *cq);
	uint32_t (*read_vendor_err)(struct abi_cq_ex *cq);
	uint32_t (*read_byte_len)(struct abi_cq_ex *cq);
	uint32_t (*read_imm_data)(struct abi_cq_ex *cq);
	uint32_t (*read_qp_num)(struct abi_cq_ex *cq);
	uint32_t (*read_src_qp)(struct abi_cq_ex *cq);
	unsigned int (*read_wc_flags)(struct abi_cq_ex *cq);
	uint32_t (*read_slid)(struct abi_cq_ex *cq);
	uint8_t (*read_sl)(struct abi_cq_ex *cq);
	uint8_t (*read_dlid_path_bits)(struct abi_cq_ex *cq);
	uint64_t (*read_completion_ts)(struct abi_cq_ex *cq);
};

/* Of enum ibv_create_cq_wc_flags, and IBV_VALUES_MASK_RAW_CLOCK. */
enum { ABI_WC_EX_WITH_BYTE_LEN = 1, ABI_WC_EX_WITH_IMM = 2, ABI_WC_EX_WITH_QP_NUM = 4 };
enum { ABI_WC_EX_WITH_COMPLETION_TIMESTAMP = 128, ABI_VALUES_MASK_RAW_CLOCK = 1 };

/* struct ibv_cq_init_attr_ex */
struct abi_cq_init_attr_ex {
	uint32_t cqe;
	void *cq_context;
	void *channel;
	uint32_t comp_vector;
	uint64_t wc_flags;
	uint32_t comp_mask;
	uint32_t flags;
	void *parent_domain;
};

/* struct ibv_values_ex */
struct abi_values_ex {
	uint32_t comp_mask;
	struct timespec raw_clock;
};

/* struct ibv_device_attr_ex of rdma-core 44. Early drivers fill members of theirs without regard to the size that they
 * are told, so a shorter one would not do. Later libraries take it for that of an earlier program. */
struct abi_device_attr_ex {
	uint8_t unused_before_mask[264];
	uint64_t completion_timestamp_mask;
	uint64_t hca_core_clock; /* kHz */
	uint8_t unused_after_clock[120];
};

/* Tail of struct verbs_context, which grows at its head. */
struct abi_verbs_context {
	int (*query_rt_values)(struct abi_context *context, struct abi_values_ex *values);
	struct abi_cq_ex *(*create_cq_ex)(struct abi_context *context, struct abi_cq_init_attr_ex *attr);
	void *priv;
	int (*query_device_ex)(struct abi_context *context, const void *input, struct abi_device_attr_ex *attr, size_t size);
	void *unused_before_size[10];
	uint64_t unused_placeholder;
	size_t sz; /* of the library's struct verbs_context */
	struct abi_context context;
};

#endif
