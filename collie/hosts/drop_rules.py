"""What drops packets on a host, read from what its tools list: queueing disciplines, filters, firewalls. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from collie.untrusted import defused

_SHOWN_CHARACTERS = 160


@dataclass(frozen=True, slots=True)
class Rule:
    """What drops packets on a host.

    Attributes:
        drops: `UDP 4791`, `ARP` or `everything`.
        text: as the host shows it.
        undo: command that takes it back.
    """

    drops: str
    text: str
    undo: str


def losses(netdev: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[Rule]:
    """Yield the queueing disciplines that lose packets on purpose, of `tc -j qdisc show`. Pure."""
    for row in rows:
        options = row.get("options")
        if row.get("kind") == "netem" and isinstance(options, Mapping) and options.get("loss-random"):
            yield Rule(
                "everything", f"queueing discipline netem of {netdev} loses packets", f"tc qdisc del dev {netdev} root"
            )


def filters(netdev: str, way: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[Rule]:
    """Yield the filters that drop RoCE or ARP, of `tc -j filter show`. Pure."""
    for row in rows:
        said, pref = json.dumps(row), row.get("pref")
        drops = re.search(r'"type": "drop"', said)
        # 0x12b7 is 4791, which a u32 filter shows as a part of four bytes.
        what = "UDP 4791" if re.search(r"\b4791\b|12b7", said) else "ARP" if row.get("protocol") == "arp" else None
        if drops and what and type(pref) is int:
            text = f"a filter of `tc` on {netdev}, {way}, drops {what}"
            yield Rule(what, text, f"tc filter del dev {netdev} {way} pref {pref}")


def nft_rules(ruleset: str) -> Iterator[Rule]:
    """Yield the rules that drop RoCE or ARP, of `nft -a list ruleset`. Pure."""
    table = chain = ""
    for line in map(str.strip, ruleset.splitlines()):
        if found := re.match(r"table (\w{1,8} [\w-]{1,64}) \{", line):
            table = found[1]
        elif found := re.match(r"chain ([\w-]{1,64}) \{", line):
            chain = found[1]
        elif (handle := re.search(r"# handle (\d{1,9})$", line)) and re.search(r"\b(drop|reject)\b", line):
            what = "ARP" if table.startswith("arp ") else "UDP 4791" if _is_of_roce(line) else None
            if what:
                yield Rule(
                    what, f"`nft` drops {what}: {_shown(line)}", f"nft delete rule {table} {chain} handle {handle[1]}"
                )
        elif re.match(r"type filter hook (input|output|prerouting) .*policy drop;", line) and "4791" not in ruleset:
            open_ = "insert rule {} {} udp dport 4791 accept"
            yield Rule(
                "UDP 4791", f"`nft` drops what no rule accepts: chain {chain}", f"nft {open_.format(table, chain)}"
            )


def iptables_rules(listed: str) -> Iterator[Rule]:
    """Yield the rules that drop RoCE, of `iptables -S`. Pure."""
    for line in map(str.strip, listed.splitlines()):
        if found := re.fullmatch(r"-A ([\w ./:,!-]{1,200} -j (?:DROP|REJECT)[\w -]{0,60})", line):
            if _is_of_roce(line):
                yield Rule("UDP 4791", f"`iptables` drops UDP 4791: {_shown(line)}", f"iptables -D {found[1]}")
        elif (found := re.fullmatch(r"-P (INPUT|OUTPUT) DROP", line)) and "4791" not in listed:
            undo = f"iptables -I {found[1]} -p udp --dport 4791 -j ACCEPT"
            yield Rule("UDP 4791", f"`iptables` drops what no rule accepts: {line}", undo)


def _is_of_roce(rule: str) -> bool:
    """Whether a rule that drops is about UDP 4791, or about all of UDP."""
    if re.search(r"\b4791\b", rule):
        return True
    return bool(re.search(r"\budp\b", rule)) and not re.search(r"\b[sd]ports?\b", rule)


def _shown(line: str) -> str:
    return defused(line.partition(" # handle")[0][:_SHOWN_CHARACTERS])
