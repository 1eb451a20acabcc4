"""Rules that drop packets on a host: queueing disciplines, filters, firewalls. Pure.

A firewall rule counts when it may match UDP to port 4791 at one network device. A rule with unknown conditions must
name the port. An accepting rule overrides later rules of its chain. If other chains jump to its chain, it also
overrides every policy. Netfilter has more paths, so a finding about a policy is only a guess.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from collie.untrusted import sanitized

_SHOWN_CHARACTERS = 160
_PORT = 4791
_ALL_LOST = 0.99
"""Share of lost packets. With less loss some traffic arrives, because RC sends each packet eight times."""


@dataclass(frozen=True, slots=True)
class DropRule:
    """A rule that drops packets on a host.

    Attributes:
        drops: `UDP 4791`, `ARP` or `everything`.
        undo: command that removes the rule.
        surely: whether it drops all such packets.
    """

    drops: str
    text: str
    undo: str
    surely: bool = True


def losses(netdev: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[DropRule]:
    """Yield queueing disciplines that lose packets, from `tc -j qdisc show`."""
    for row in rows:
        options = row.get("options")
        random = options.get("loss-random") if isinstance(options, Mapping) else None
        share = random.get("loss") if isinstance(random, Mapping) else None
        if row.get("kind") == "netem" and isinstance(share, int | float) and share > 0:
            text = f"queueing discipline netem of {netdev} loses {100 * min(share, 1):.3g}% of all packets"
            yield DropRule("everything", text, f"tc qdisc del dev {netdev} root", share >= _ALL_LOST)


def filters(netdev: str, way: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[DropRule]:
    """Yield filters that drop RoCE or ARP, from `tc -j filter show`."""
    for row in rows:
        text, pref = json.dumps(row), row.get("pref")
        drops = '"type": "drop"' in text
        # 0x12b7 is 4791: a u32 filter shows it as part of four bytes.
        what = "UDP 4791" if re.search(r"\b4791\b|12b7", text) else "ARP" if row.get("protocol") == "arp" else None
        if drops and what and type(pref) is int:
            rule = f"a filter of `tc` on {netdev}, {way}, drops {what}"
            yield DropRule(what, rule, f"tc filter del dev {netdev} {way} pref {pref}")


@dataclass(frozen=True, slots=True)
class _Syntax:
    """Patterns of conditions in a tool's syntax. Groups: `unless`, `values`, and `way` for a network device."""

    protocol: re.Pattern[str]
    port: re.Pattern[str]
    device: re.Pattern[str]
    noise: re.Pattern[str]


_IPTABLES = _Syntax(
    re.compile(r"(?P<unless>! )?(?<!\S)-p (?P<values>\S+)"),
    re.compile(r"(?P<unless>! )?--dports? (?P<values>\S+)"),
    re.compile(r"(?P<unless>! )?(?<!\S)-(?P<way>[io]) (?P<values>\S+)"),
    re.compile(r'-m (?:udp|multiport|comment)\b|--comment (?:"[^"]*"|\S+)'),
)
_VALUES = r"(?P<unless>!= )?(?P<values>\{[^}]*\}|\S+)"
_NFT = _Syntax(
    re.compile(rf"(?:meta l4proto|ip protocol|ip6 nexthdr) {_VALUES}"),
    re.compile(rf"(?:udp|th) dport {_VALUES}"),
    re.compile(rf"\b(?P<way>[io])if(?:name)? {_VALUES}"),
    re.compile(r'counter packets \d+ bytes \d+|(?:comment|log prefix) "[^"]*"'),
)


@dataclass(frozen=True, slots=True)
class _Chain:
    """A chain of a firewall, which accepts RoCE after the command `open`.

    Attributes:
        way: direction of its packets, `i` into the host or `o` out of it. None where other chains jump to it.
    """

    name: str
    way: str | None
    open: str


@dataclass(frozen=True, slots=True)
class _Line:
    """A rule of a firewall, or the policy of a chain, that may match RoCE.

    Attributes:
        aimed: whether it has a condition on protocol, port or network device.
        ways: directions of the packets that it may match.
    """

    chain: _Chain
    accepts: bool
    names_port: bool
    aimed: bool
    ways: str
    text: str
    undo: str


def _line(
    syntax: _Syntax, netdev: str, chain: _Chain, accepts: bool, conditions: str, text: str, undo: str
) -> Iterator[_Line]:
    rest = conditions = syntax.noise.sub("", conditions)
    patterns = syntax.protocol, syntax.port, syntax.device
    protocol, port, device = (pattern.search(conditions) for pattern in patterns)
    for pattern in patterns:
        rest = pattern.sub("", rest)
    aimed = bool(protocol or port or device)
    names_port = port is not None and not port["unless"]
    matches = _holds(protocol, _is_udp) and _holds(port, _is_roce) and _holds(device, lambda name: _is(name, netdev))
    if matches and (names_port or not rest.strip()):
        ways = device["way"] if device else "io"
        yield _Line(chain, accepts, names_port, aimed, ways, text, undo if aimed else chain.open)


def _holds(found: re.Match[str] | None, is_ours: Callable[[str], bool]) -> bool:
    if found is None:
        return True
    values = filter(None, re.split(r'[{},"\s]+', found["values"]))
    return any(map(is_ours, values)) != bool(found["unless"])


def _is_udp(protocol: str) -> bool:
    return protocol in ("udp", "17", "all")


def _is_roce(ports: str) -> bool:
    found = re.fullmatch(r"(\d{1,5})(?:[:-](\d{1,5}))?", ports)
    return found is not None and int(found[1]) <= _PORT <= int(found[2] or found[1])


def _is(name: str, netdev: str) -> bool:
    return name == netdev or (name[-1] in "+*" and netdev.startswith(name[:-1]))


_HOOKS = {"prerouting": "i", "ingress": "i", "input": "i", "output": "o", "postrouting": "o", "egress": "o"}


def nft_rules(netdev: str, ruleset: str) -> Iterator[DropRule]:
    """Yield rules that drop RoCE or ARP, from `nft -a list ruleset`."""
    placed = list(_nft_placed(ruleset))
    yield from _of_firewall("nft", list(_nft_lines(netdev, placed)))
    for table, chain, line in placed:
        rule, handle, verdict = _nft_verdict(line)
        if table.startswith("arp ") and handle and verdict and verdict[1] != "accept":
            undo = f"nft delete rule {table} {chain} handle {handle}"
            yield DropRule("ARP", f"`nft` drops ARP: {_shown(rule)}", undo)


def _nft_placed(ruleset: str) -> Iterator[tuple[str, str, str]]:
    table = chain = ""
    for line in map(str.strip, ruleset.splitlines()):
        if found := re.match(r"table (\w{1,8} [\w-]{1,64}) \{", line):
            table, chain = found[1], ""
        elif found := re.match(r"chain ([\w-]{1,64}) \{", line):
            chain = found[1]
        elif table and chain:
            yield table, chain, line


def _nft_verdict(line: str) -> tuple[str, str | None, re.Match[str] | None]:
    """Return a rule without comments, its handle, and its verdict."""
    handle = re.search(r" ?# handle (\d{1,9})$", line)
    rule = _NFT.noise.sub("", line[: handle.start()] if handle else line).strip()
    return rule, handle and handle[1], re.search(r"\b(accept|drop|reject)\b(?: with [\w -]+)?$", rule)


def _nft_lines(netdev: str, placed: Sequence[tuple[str, str, str]]) -> Iterator[_Line]:
    """Yield the rules for the host's own packets, then the policies."""
    base = {(table, name): line for table, name, line in placed if line.startswith("type ")}
    policies: list[_Line] = []
    for table, name, line in placed:
        hook = base.get((table, name), "")
        found = re.match(r"type \w+ hook (\w+)(?: device \"?([^\" ]+)\"?)? ", hook)
        foreign = found and (found[1] not in _HOOKS or found[2] not in (None, netdev))
        if table.startswith("arp ") or foreign:
            continue
        way = _HOOKS[found[1]] if found else None
        chain = _Chain(f"{table} {name}", way, f"nft insert rule {table} {name} udp dport {_PORT} accept")
        rule, handle, verdict = _nft_verdict(line)
        if line == hook and "policy drop;" in line:
            policies += _line(_NFT, netdev, chain, False, "", f"policy drop of chain {name}", "")
        elif handle and verdict:
            undo = f"nft delete rule {table} {name} handle {handle}"
            conditions = rule[: verdict.start()]
            yield from _line(_NFT, netdev, chain, verdict[1] == "accept", conditions, rule, undo)
    yield from policies


def iptables_rules(netdev: str, listed: str) -> Iterator[DropRule]:
    """Yield rules that drop RoCE, from `iptables -S`."""
    yield from _of_firewall("iptables", list(_iptables_lines(netdev, listed)))


def _iptables_lines(netdev: str, listed: str) -> Iterator[_Line]:
    policies: list[_Line] = []
    for line in map(str.strip, listed.splitlines()):
        if found := re.fullmatch(r"-P (INPUT|OUTPUT) DROP", line):
            policies += _line(_IPTABLES, netdev, _iptables_chain(found[1]), False, "", line, "")
        elif found := re.fullmatch(r"-A ([\w.-]{1,64}) (.*)-j (ACCEPT|DROP|REJECT)(?: .*)?", line):
            accepts, is_safe = found[3] == "ACCEPT", re.fullmatch(r"[\w ./:,!+-]{1,300}", line)
            if found[1] != "FORWARD" and (accepts or is_safe):
                undo = f"iptables -D {line.removeprefix('-A ')}"
                yield from _line(_IPTABLES, netdev, _iptables_chain(found[1]), accepts, found[2], line, undo)
    yield from policies


def _iptables_chain(name: str) -> _Chain:
    way = {"INPUT": "i", "OUTPUT": "o"}.get(name)
    return _Chain(name, way, f"iptables -I {name} -p udp --dport {_PORT} -j ACCEPT")


def _of_firewall(tool: str, lines: Sequence[_Line]) -> Iterator[DropRule]:
    """Yield dropping rules and policies that no accepting rule overrides."""
    elsewhere = {way for line in lines if line.accepts and line.chain.way is None for way in line.ways}
    opened: set[str] = set()
    for line in lines:
        may_pass = line.chain.way is None or line.chain.way in elsewhere
        if line.accepts:
            opened.add(line.chain.name)
        elif line.chain.name in opened:
            continue
        elif line.names_port or (line.aimed and not may_pass):
            yield DropRule("UDP 4791", f"`{tool}` drops UDP 4791: {_shown(line.text)}", line.undo)
        elif not line.aimed and not may_pass:
            text = f"`{tool}` may drop UDP 4791, as no rule is seen to accept it: {_shown(line.text)}"
            yield DropRule("UDP 4791", text, line.undo, surely=False)


def _shown(line: str) -> str:
    return sanitized(line[:_SHOWN_CHARACTERS])
