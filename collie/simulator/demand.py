"""Working sets of traffic on each host, and the miss ratios of the NIC's caches."""

from __future__ import annotations

from typing import Final, NamedTuple

from collie.simulator.caches import miss_ratio, pushed_out
from collie.simulator.hardware import Subsystem
from collie.simulator.nic import Cache, ControlVerbs, ReceiveQueues
from collie.simulator.numbers import Numbers, Quantity
from collie.simulator.traffic import TrafficArrays

_LOOK_AHEAD_SHARPNESS: Final = 3.0

_OfEnds = tuple[Quantity, Quantity, Quantity, Quantity, Quantity, Quantity, Quantity, Quantity, Quantity]


class WorkingSets(NamedTuple):
    """Working sets of one host.

    Attributes:
        ends: queue pair ends, of requesters and responders.
        reads: ends that carry READs.
        contexts_lost, translations_lost: share of early lookups that leave the chip before use.
        staging_misses: share of packets evicted from the transmit staging.
        write_misses: share of written bytes that the last-level cache does not take.
        held: share of the time for which control verbs and errors hold up all messages.
    """

    ends: Quantity
    reads: Quantity
    context_misses: Quantity
    translation_misses: Quantity
    contexts_lost: Quantity
    translations_lost: Quantity
    staging_misses: Quantity
    write_misses: Quantity
    held: Quantity
    send_wqes: Quantity
    receive_misses: Quantity


def working_sets(subsystem: Subsystem, t: TrafficArrays, n: Numbers) -> tuple[WorkingSets, WorkingSets]:
    """Return the working sets on the payload's source and sink."""
    # A network flow has one end on a host, loopback has both.
    flows = sink_flows = 1.0 + t.two_way
    source_ends = sink_ends = _of_ends(subsystem, t, n, flows)
    if n.anywhere(t.loop):
        sink_flows = flows + 2.0 * t.loop
        sink_ends = _of_ends(subsystem, t, n, sink_flows)
    source_asks, sink_asks = n.choose(t.is_read, t.two_way, 1.0), n.choose(t.is_read, 1.0, t.two_way) + t.loop
    return (
        WorkingSets(*source_ends, *_of_queues(subsystem, t, n, source_asks, flows - source_asks)),
        WorkingSets(*sink_ends, *_of_queues(subsystem, t, n, sink_asks, sink_flows - sink_asks)),
    )


def _of_ends(subsystem: Subsystem, t: TrafficArrays, n: Numbers, flows: Quantity) -> _OfEnds:
    context, translation, staging = subsystem.context_cache, subsystem.translation_cache, subsystem.transmit_staging
    ends = flows * t.qps
    regions = ends * t.regions * t.translations
    new_contexts, new_translations, held = _control_verbs(subsystem.control_verbs, t, n)
    staged = t.is_rc * t.long_list * t.two_way  # only arrivals evict packets
    if n.anywhere(staged):
        staged = staged * miss_ratio(
            n.least(ends, staging.queue_pairs) * t.mtu, staging.size_bytes, staging.sharpness, 0.0
        )
    return (
        ends,
        t.is_read * ends,
        _or(miss_ratio(ends, context.entries, context.sharpness, context.conflict_ratio), new_contexts),
        _or(
            miss_ratio(regions, translation.entries, translation.sharpness, translation.conflict_ratio),
            new_translations,
        ),
        _or(_lost(context, ends), new_contexts),
        _or(_lost(translation, regions), new_translations),
        staged,
        miss_ratio(ends * t.touched, subsystem.memory.io_cache_bytes, 4.0, 0.0),
        held,
    )


def _control_verbs(verbs: ControlVerbs, t: TrafficArrays, n: Numbers) -> tuple[Quantity, Quantity, Quantity]:
    """Return the shares of contexts and of translations that are invalidated before their next use, and `held`.

    The firmware carries out the verbs one after another, so more of them than it has time for are not carried out.
    """
    busy = (
        t.new_regions * verbs.region_seconds
        + t.new_queue_pairs * verbs.queue_pair_seconds
        + t.new_address_handles * verbs.address_handle_seconds
    )
    slower = n.most(1.0, busy)
    contexts, translations = t.new_queue_pairs / slower, t.new_regions / slower
    broken = t.queue_pair_errors * verbs.error_seconds
    return (
        contexts / (contexts + verbs.queue_pairs_per_second),
        translations / (translations + verbs.regions_per_second),
        _or(verbs.held_ratio * n.least(1.0, busy), broken / (1.0 + broken)),
    )


def _or(one: Quantity, other: Quantity) -> Quantity:
    """Return the chance of either of two independent events. It is `one` exactly if the other never happens."""
    return one + (1.0 - one) * other


def _lost(cache: Cache, used: Quantity) -> Quantity:
    """Early lookups are used in order of arrival, so that what they bring leaves the chip gradually."""
    return miss_ratio(used, cache.look_ahead_ratio * cache.entries, _LOOK_AHEAD_SHARPNESS, 0.0)


def _of_queues(
    subsystem: Subsystem, t: TrafficArrays, n: Numbers, asking: Quantity, answering: Quantity
) -> tuple[Quantity, Quantity]:
    missing = 0.0
    if n.anywhere(t.receives):
        receiving = answering * t.receives * t.qps
        for queues, used in receive_queues(subsystem, t):
            if n.anywhere(used):
                window = queues.window_wqes_per_queue
                slots = receiving * n.most(t.receive_wqe, queues.slot_bytes)
                ahead = slots * window * pushed_out(n, t.recv_depth, window / 2.0)
                misses = miss_ratio(ahead, queues.size_bytes, queues.sharpness, queues.conflict_ratio)
                missing = missing + used * misses
    return asking * t.qps * t.send_depth, missing


def receive_queues(subsystem: Subsystem, t: TrafficArrays) -> tuple[tuple[ReceiveQueues, Quantity], ...]:
    """Return both kinds of receive queue, and whether the traffic uses them."""
    return (subsystem.datagram_receives, t.is_ud), (subsystem.reliable_receives, t.is_rc)
