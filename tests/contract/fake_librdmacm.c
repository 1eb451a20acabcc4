/* A librdmacm.so.1 in one file: ids of one process that connect to each other. For tests of connecting.
 *
 * Strict where the real one is: an id whose events were not given back cannot be destroyed, a request needs a listener,
 * and what is left over is counted. */

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ADDR_RESOLVED = 0, ROUTE_RESOLVED = 2, REQUEST = 4, RESPONSE = 5, REJECTED = 8, ESTABLISHED = 9 };
enum { NO_LISTENER = 8, CONSUMER = 28, MAX = 256 };

struct conn { const void *private_data; uint8_t private_data_len, resources, depth, flow, retry, rnr, srq; uint32_t qp_num; };
struct id { struct channel *channel; uint16_t port, to; int listening, held; struct id *peer; uint32_t qp_num; };
struct event { struct id *id, *listener; uint32_t event; int status; struct conn conn; };
struct channel { int fd, write_fd; };

static int live;
static uint16_t last_port = 1000;
static struct id *listeners[MAX];
static uint8_t bound[4];

int fake_live(void) { return live; }
uint8_t *fake_bound(void) { return bound; }

static int tell(struct id *id, struct id *listener, uint32_t kind, int status, uint32_t qp_num)
{
	struct event *event = calloc(1, sizeof *event);
	*event = (struct event){ .id = id, .listener = listener, .event = kind, .status = status, .conn.qp_num = qp_num };
	id->held++;
	return write(id->channel->write_fd, &event, sizeof event) == sizeof event ? 0 : -1;
}

struct channel *rdma_create_event_channel(void)
{
	struct channel *channel = calloc(1, sizeof *channel);
	int ends[2];
	if (pipe(ends))
		return NULL;
	channel->fd = ends[0], channel->write_fd = ends[1];
	live++;
	return channel;
}

void rdma_destroy_event_channel(struct channel *channel)
{
	close(channel->fd), close(channel->write_fd);
	free(channel);
	live--;
}

int rdma_create_id(struct channel *channel, struct id **made, void *context, int space)
{
	*made = calloc(1, sizeof **made);
	(*made)->channel = channel;
	live++;
	return 0;
}

int rdma_destroy_id(struct id *id)
{
	if (id->held)
		return errno = EBUSY, -1;
	if (id->listening)
		listeners[id->port % MAX] = NULL;
	if (id->peer)
		id->peer->peer = NULL;
	free(id);
	live--;
	return 0;
}

int rdma_bind_addr(struct id *id, void *address)
{
	memcpy(bound, (uint8_t *)address + 4, sizeof bound);
	id->port = ++last_port;
	return 0;
}

int rdma_listen(struct id *id, int backlog) { id->listening = 1; listeners[id->port % MAX] = id; return 0; }
uint16_t rdma_get_src_port(struct id *id) { return (uint16_t)(id->port << 8 | id->port >> 8); }

int rdma_resolve_addr(struct id *id, void *own, uint8_t *peer, int milliseconds)
{
	id->to = (uint16_t)(peer[2] << 8 | peer[3]);
	return tell(id, NULL, ADDR_RESOLVED, 0, 0);
}

int rdma_resolve_route(struct id *id, int milliseconds) { return tell(id, NULL, ROUTE_RESOLVED, 0, 0); }

int rdma_connect(struct id *id, struct conn *param)
{
	struct id *listener = listeners[id->to % MAX], *request;
	id->qp_num = param->qp_num;
	if (!listener)
		return tell(id, NULL, REJECTED, NO_LISTENER, 0);
	rdma_create_id(listener->channel, &request, NULL, 0);
	request->peer = id, id->peer = request;
	return tell(request, listener, REQUEST, 0, param->qp_num);
}

int rdma_accept(struct id *id, struct conn *param)
{
	id->qp_num = param->qp_num;
	return tell(id->peer, NULL, RESPONSE, 0, param->qp_num);
}

int rdma_establish(struct id *id) { return tell(id->peer, NULL, ESTABLISHED, 0, 0); }
int rdma_reject(struct id *id, const void *data, uint8_t length) { return tell(id->peer, NULL, REJECTED, CONSUMER, 0); }
int rdma_disconnect(struct id *id) { return 0; }

int rdma_init_qp_attr(struct id *id, uint32_t *attributes, int *mask)
{
	attributes[7] = id->peer->qp_num; /* dest_qp_num */
	return 0;
}

int rdma_get_cm_event(struct channel *channel, struct event **found)
{
	return read(channel->fd, found, sizeof *found) == sizeof *found ? 0 : -1;
}

int rdma_ack_cm_event(struct event *event)
{
	event->id->held--;
	free(event);
	return 0;
}

const char *rdma_event_str(uint32_t kind) { return kind == REJECTED ? "RDMA_CM_EVENT_REJECTED" : "another"; }
