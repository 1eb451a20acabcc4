"""The program that runs on each host: generates RDMA traffic, samples counters, and dies with its controller.

It is built into one zip archive (``collie.agent.build``), copied to the host and started over SSH as
``python3 agent-DIGEST.pyz``. It needs Python 3.9 and the distribution's libibverbs, or its pyverbs (44 or newer), and
nothing else. It listens on no port: the controller relays what two agents must tell each other. The one exception is a
workload with ``connection`` ``rdma_cm``: then a responder listens on a port of RDMA-CM, of its data address alone, from
``prepare`` until its queue pairs are connected (``rdma_cm.py``).

Data paths
==========

``native``   libibverbs through ctypes, and the loop that posts and polls in C (``native/traffic.c``): a shared object
             for x86_64 that the archive carries, or one that is compiled on the host where that does not fit.
``pyverbs``  pyverbs, and the same loop in Python (``traffic.py``): the portable path, and the reference.

Both make the same objects, post the same work requests and keep the same totals (``paths.py``).

Processes
=========

``agent``   resident: reads requests, answers, samples every counter on its own monotonic clock. Opens no verbs device.
``engine``  forked children, fresh for each run: own every verbs object, so that a hung step ends with SIGKILL and the
            kernel takes the QPs back. Write their totals to shared memory, where the agent samples them with the
            counters. One per run, or ``processes`` of them that share the QPs and MRs of every flow (``sharing.py``);
            then a step is done when all have done it, one that dies ends the run, and every figure below is of all.

An engine dies with the agent (parent-death signal), and without it where the agent stands still (``pulse.py``). The
agent ends, taking the engine with it, on end of stdin, on
SIGHUP/SIGTERM, when stdout is gone, or when no line arrived for ``lease_seconds`` (8, changed by ``hello``).

Protocol 2: JSON lines
======================

One JSON object per line. stdin: requests. stdout: replies and events. stderr: a log for people. Unknown keys in a
request are refused (``bad_request``), unknown keys in a reply or event must be ignored.

Request ``{"id": n, "do": "...", "deadline_seconds": s, ...}``; ``deadline_seconds`` is optional (default 10) and means
the answer comes within it: a step that takes longer has its engine killed and is answered ``timeout``. Reply::

    {"id": n, "ok": true, ...}
    {"id": n, "ok": false, "error": {"kind": K, "step": S, "message": M, "errno": E, "errno_name": "EINVAL"}}

``errno`` and ``errno_name`` are null where no system call failed.

========================  =============================================================================================
kind                      meaning
========================  =============================================================================================
``unsupported``           the device cannot do this (EOPNOTSUPP, a wish above a device limit, EINVAL of create_qp, GPU
                          memory, no data path)
``setup``                 a verb failed though the device should do it (ENOMEM, EINVAL, ...); ``step`` names the verb
``bad_request``           unknown ``do`` or key, wrong type, impossible workload, request out of order
``timeout``               the deadline passed; the engine was killed, the run is over
``died``                  the engine ended by itself; ``message`` has its status and last words; the run is over
``internal``              a fault of the agent
========================  =============================================================================================

After an error in ``prepare``, ``connect`` or ``start`` of kind other than ``bad_request`` the run is over and the
engine is gone (a failed ``prepare`` leaves none in any case); the next ``prepare`` starts a fresh one. One run at a
time. ``ping`` and ``sampling`` are answered at any time, even while another step is under way; any other request during
a step is refused.

``hello``      ``protocol`` (2), ``lease_seconds``? -> ``protocol``, ``pid``, and the facts of the host: ``hostname``,
               ``machine``, ``kernel``, ``python``, ``pyverbs_present``, ``pyverbs`` (its version; null where it does
               not say, as Debian's), ``pyverbs_error`` (why it cannot be imported), ``data_paths`` {name: {"usable",
               "detail": where it is from, or why it cannot be used}} with the best first, ``cpus``,
               ``usable_cpus`` (how many this process may run on), ``numa_cpus`` {number of a NUMA node: how many of
               them it has}, ``memory_bytes``, ``memory_available_bytes``, ``numa_nodes``, ``devices`` (see
               ``facts.py``), ``clock`` (now, on the clock of the samples), ``rdma_cm_error`` (why
               no queue pair can be connected by RDMA-CM here, else null). Works without a data path: then devices have
               no ``limits``, ports no ``active_mtu``.
``ping``       -> ``clock``, ``phase`` (idle|prepared|connected|running|stopped). Send one at least every 2 seconds.
``sampling``   ``on``, ``device``, ``port``? (1), ``netdev``?, ``period_seconds``? (0.25): samples without a run (for an
               idle window, to watch counters). ``start`` turns sampling on by itself, and the end of the run turns it
               off again, unless it was on before. -> ``sources`` {"hw_counters": "netlink"|"sysfs"|null,
               "device_hw_counters": "sysfs"|null, "counters": "sysfs"|null, "netdev": "sysfs"|null,
               "ethtool": "ioctl"|null, "devlink": "netlink"|null}; nothing for ``on`` false
``prepare``    ``device``, ``port``? (1), ``gid_index``, ``workload``, ``flows``, ``data_path``? (the best usable),
               ``verify``? (false: true fills the buffers for ``verify``), ``processes``? (1: engines that share the QPs
               of every flow evenly; both hosts the same number, 1 with ``srq``): creates PD, MRs, CQs, QPs in new
               engines. -> ``engine_pids``, ``data_path``, ``endpoints`` {key: endpoint}, ``flows`` {key: plan}
``connect``    ``peers`` {key: endpoint of the other role}: RTR, RTS (AH for UD), receives posted before the reply.
``start``      ``period_seconds``? (0.25): begins to post; samples come. -> ``clock``
``stop``       ``drain_seconds``? (1): posts no more sends, waits for outstanding ones at most that long, goes on
               serving receives until ``destroy``. -> ``totals``: a sample as of the end of posting; ``drained`` (bool)
``verify``     ``completed``? {key: messages}: compares what has arrived with what was sent, while running or after
               ``stop``, without ending the run; see ``content.py``. ``completed`` says for a responder's end how many
               messages each queue pair of its requester has completed at least (``qp_messages`` ``min`` of the
               requester's end); what is not known to have arrived counts only where it has changed. -> ``flows`` {key
               of each end that messages come to: {"checked_bytes", "wrong_bytes", "first_wrong": null or {"qp", "mr",
               "offset", "expected", "found" (hex)}}, or null where atomics forbid it}
``destroy``    QPs to ERR, flush completions polled, everything destroyed, engine reaped. Allowed in any phase, also
               twice. -> ``qps_left`` (ours, read back from the kernel; null when it cannot be read), ``flushed``
               (completions that came), ``seconds``, ``clean`` (false: the engine had to be killed, or was dead)
``resources``  ``device`` -> ``qps`` [{"qpn", "type", "state", "pid", "comm"}] of every process, or null (RDMA netlink)
``fingerprint`` ``device``, ``port``? (1) -> ``fingerprint`` {category: {field: value}}: what decides how this host
               performs (see ``fingerprint.py``); null is what cannot be read. Refused while a run is under way.
``bye``        destroys what is left, exits 0. -> ``qps_left``, ``pids`` (whose they are; null when it cannot be read)

Flows, roles, endpoints
-----------------------

A flow is ``qps`` queue pairs of a workload from a *requester* (posts SEND, WRITE, READ) to a *responder*. Its key in
every map is ``"FLOW/ROLE"``, e.g. ``"a-b/requester"``. ``flows`` of ``prepare`` lists this host's ends::

    unidirectional  on A [{"flow": "a-b", "role": "requester"}]     on B [{"flow": "a-b", "role": "responder"}]
    bidirectional   on A both of a-b/requester and b-a/responder, on B the mirror image
    loopback        additionally on B (the receiving host) b-b/requester and b-b/responder; ``peers`` of b-b come from B
                    itself. With READ the receiving host of a-b is A (see below), so it is A that has a-a.

Each entry may carry its own ``workload``; without it the request's holds. It may carry its own ``qps``; without it the
workload's holds. An endpoint is opaque: hand the endpoint of ``a-b/responder`` unchanged to the agent that has
``a-b/requester``, and the other way round. By RDMA-CM ``connect`` must be under way on both sides at once: each waits
for the other, four fifths of its deadline at most.

Order: ``prepare`` on both, ``connect`` on both, ``start`` the responder's host first where receives are used, ``stop``
the requester's host first (bidirectional: any order), ``destroy`` on both.

Workload
--------

``qp_type`` RC|UC|UD (XRC|DC|SRD are known and ``unsupported``), ``opcode`` (SEND, SEND_WITH_IMM, WRITE, WRITE_WITH_IMM,
READ, FETCH_ADD or CMP_SWP) and ``messages`` (list of bytes per work request, used in turn) are required.
``more_opcodes`` [] lists opcodes that work requests take in turn after ``opcode``; request *i* has opcode *i* and size
*i* of the two lists, each begun anew at its end. An atomic takes 8 bytes whatever ``messages`` says. Without
``sq_sig_all`` the last request of every ``signal_every`` (1) posts is signalled. The rest, with defaults: ``qps`` 1,
``mrs_per_qp`` 1, ``mr_bytes`` (0: the largest message), ``mtu`` 1024, ``wqe_batch`` 1, ``sge_count`` 1, ``sge_split``
"even", ``send_wq_depth`` 128, ``recv_wq_depth`` 128, ``max_rd_atomic`` 1, ``max_dest_rd_atomic`` 1, ``timeout`` 14,
``retry_cnt`` 7, ``rnr_retry`` 6, ``min_rnr_timer`` 12, ``max_inline_data`` 0, ``sq_sig_all`` false, ``srq`` false,
``fence`` false, ``sq_psn`` 0, ``traffic_class`` 0, ``hop_limit`` 64, ``connection`` "out_of_band" (or "rdma_cm", with
RC alone), ``numa_node`` and ``memory`` of the requester's buffers, ``peer_numa_node`` and ``peer_memory`` of the
responder's (dram|gpu; gpu is ``unsupported``), ``huge_pages`` false. ``direction`` and ``loopback`` are accepted and
ignored: ``flows`` says it. With ``srq`` each responder's end has one shared queue of ``recv_wq_depth`` receives for all
its queue pairs together.
How a workload becomes work requests: ``pattern.py``.

Sample
------

Every value is cumulative since the engine was prepared (counters: since whenever the device counts); null is unknown::

    {"event": "sample", "n": 12, "clock": 8123.250, "clock_end": 8123.252, "phase": "running",
     "flows": {"a-b/requester": {"posted_messages": 4096, "posted_bytes": ..., "completed_messages": 3968,
                                 "delivered_messages": 3968, "delivered_bytes": 260046848,
                                 "returned_messages": null, "returned_bytes": null,
                                 "qp_messages": {"min": 990, "mean": 992.0, "max": 994}, "failed_qps": 0,
                                 "stalled": false}},
     "health": {"data_path": "native", "iterations": 9000, "idle_polls": 512, "posts": 64,
                "queue_empty": 3, "queue_outstanding": 6144, "queue_limit": 8192,
                "errors": {"RNR retry exceeded": 1}, "flushed": 127, "post_errors": 0,
                "cpu_seconds": 1.91, "cpu_user_seconds": 0.12, "wait_seconds": 0.02},
     "counters": {"hw_counters": {"rcvd_pkts": 1}, "counters": {}, "netdev": {"rx_bytes": 1}, "ethtool": {}},
     "link": {"state": "4: ACTIVE", "rate": "100 Gb/sec (4X EDR)", "netdev_state": "up", "netdev_speed_mbps": 100000,
              "carrier_changes": 2, "pci_speed": "16.0 GT/s PCIe", "pci_width": "16"},
     "host": {"cpu_seconds": {"user": 1.0, "system": 1.0, "softirq": 1.0, "idle": 9.0, "steal": 0.0},
              "agent_cpu_seconds": 0.4, "device_cpu_seconds": 0.2, "softirq_thread_cpu_seconds": 0.3},
     "dropped_samples": 0}

``flows``, ``health`` and ``link`` are absent without a run. ``clock`` is CLOCK_MONOTONIC of the host in seconds, before
the reading; ``clock_end`` after it. ``queue_empty`` counts how often a send queue had nothing outstanding when it was
filled again: with ``rounds_in_queue`` 1 (in the plan) that is every time and means nothing. ``queue_outstanding`` over
``queue_limit`` is how full send queues were at those moments: rounds outstanding, and rounds that fit, each summed over
all of them. ``cpu_seconds`` of ``health`` is the engine's, ``cpu_user_seconds`` the part of it outside of the kernel,
in clock ticks, and ``wait_seconds`` the time that it was ready to run and had no CPU (/proc/PID/schedstat; of several
engines, on average). ``device_cpu_seconds`` is, with a software device, what unbound kernel workers and threads of NAPI
took since boot, as some kernels let the device work there, and ``softirq_thread_cpu_seconds`` what ksoftirqd took; both
are absent elsewhere, and where they are unknown. What of ``link`` differs between two samples changed during the run.
``errors`` are completions by status, but for flushed ones.

``delivered_*`` is what reached the *sink* of the flow: the responder, unless every request of the flow fetches its
payload (READ, FETCH_ADD, CMP_SWP): then the requester. Where some requests fetch and others do not, ``returned_*`` of
the requester's end is what the former brought back, and ``delivered_*`` what the latter brought to the responder:
together every message. ``returned_*`` is null elsewhere. A flow's end that cannot know what was delivered says null;
exactly one end of each flow counts (``counted_by`` in the plan of ``prepare``):

* SEND, SEND_WITH_IMM, WRITE_WITH_IMM, and any mix of them: the responder's receive completions (UD without the 40 bytes
  of GRH).
* READ, FETCH_ADD, CMP_SWP: the requester's completions: it is the receiver of the payload.
* RC WRITE, alone or beside others that bring payload: the requester's completions, each acknowledged by the responder's
  NIC; attribute them to the responder.
* UC WRITE: the responder's received packets (its NIC's counter) times the mean payload per packet of the message mix,
  as UC acknowledges nothing and a WRITE completes nothing at the responder. Shared by its ends in proportion to QPs;
  null where flows of the run have different workloads. An estimate: of a message that lost packets the others still
  count, and a device that counts nothing gives null.

Completions of the requester are counted per signalled work request: with ``sq_sig_all`` false that is once per round of
``signal_every`` chains, so delivered bytes move in steps of a round; choose the window so that it holds many.

Events
------

``{"event": "sample", ...}``; ``{"event": "engine_died", "message": "..."}`` (a running engine ended: the run is over);
``{"event": "bye", "reason": "lease"|"eof"|"signal"|"request"}`` as the last line where stdout still works.

A whole run, controller to A (>) and to B (»), answers (<, «)
--------------------------------------------------------------

::

    > {"id": 1, "do": "hello", "protocol": 2, "lease_seconds": 8}
    < {"id": 1, "ok": true, "protocol": 2, "pid": 412, "devices": [{"name": "rxe0", ...}], ...}
    » {"id": 1, "do": "hello", "protocol": 2}                            « {"id": 1, "ok": true, ...}
    > {"id": 2, "do": "prepare", "deadline_seconds": 20, "device": "rxe0", "gid_index": 1,
       "workload": {"qp_type": "RC", "opcode": "WRITE", "messages": [65536], "qps": 1, "mtu": 4096},
       "flows": [{"flow": "a-b", "role": "requester"}]}
    < {"id": 2, "ok": true, "engine_pids": [415],
       "endpoints": {"a-b/requester": {"engines": [{"gid": "…", "qps": [[17, 0]], ...}]}},
       "flows": {"a-b/requester": {"counted_by": "requester_completions", "rounds_in_queue": 128, ...}}}
    » {"id": 2, "do": "prepare", ..., "flows": [{"flow": "a-b", "role": "responder"}]}
    « {"id": 2, "ok": true, "endpoints": {"a-b/responder": {"engines": [{"qps": [[18, 0]], "buffers": {...}}]}}, ...}
    > {"id": 3, "do": "connect", "peers": {"a-b/requester": {"engines": [{"qps": [[18, 0]], "buffers": {...}}]}}}
    » {"id": 3, "do": "connect", "peers": {"a-b/responder": {"engines": [{"qps": [[17, 0]], ...}]}}}
    < {"id": 3, "ok": true}                                              « {"id": 3, "ok": true}
    » {"id": 4, "do": "start"}                                           « {"id": 4, "ok": true, "clock": 55.1}
    > {"id": 4, "do": "start"}                                           < {"id": 4, "ok": true, "clock": 1022.7}
    < {"event": "sample", "n": 0, ...}  « {"event": "sample", "n": 0, ...}  … every 250 ms
    > {"id": 5, "do": "ping"}                                            < {"id": 5, "ok": true, "phase": "running"}
    > {"id": 6, "do": "stop"}              < {"id": 6, "ok": true, "totals": {...}, "drained": true}
    » {"id": 6, "do": "stop"}              « {"id": 6, "ok": true, "totals": {...}, "drained": true}
    > {"id": 7, "do": "destroy"}                                         < {"id": 7, "ok": true, "qps_left": 0, ...}
    » {"id": 7, "do": "destroy"}                                         « {"id": 7, "ok": true, "qps_left": 0, ...}
    > {"id": 8, "do": "bye"}                                             < {"id": 8, "ok": true}
"""

PROTOCOL = 2
