/* What the traffic loop needs of libibverbs' ABI (libibverbs.so.1, symbol version IBVERBS_1.1), so that compiling it
 * takes a C compiler and libc headers alone. A test compares every size and offset with <infiniband/verbs.h>.
 * Objects of the library are reached by their heads only; their length is the library's own business. */
#ifndef COLLIE_VERBS_ABI_H
#define COLLIE_VERBS_ABI_H

#include <stdint.h>

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

/* Head of struct ibv_context. */
struct abi_context {
	void *device;
	struct abi_ops ops;
};

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

#endif
