"""What the tools of a host list as dropping packets, and what undoes it."""

from __future__ import annotations

import pytest

from collie.hosts.drop_rules import filters, iptables_rules, losses, nft_rules

NFT = """table inet filter { # handle 3
	chain input { # handle 1
		type filter hook input priority filter; policy accept;
		tcp dport 22 accept # handle 4
		udp dport 53 drop # handle 5
		udp dport { 4791, 5000 } counter packets 0 bytes 0 drop # handle 6
	}
}
table arp guard { # handle 4
	chain input { # handle 1
		type filter hook input priority filter; policy accept;
		arp operation request drop # handle 2
	}
}
"""
ANSWER = "--reject-with icmp-port-unreachable"
FLOWER = {
    "protocol": "ip",
    "pref": 49152,
    "kind": "flower",
    "chain": 0,
    "options": {
        "handle": 1,
        "keys": {"eth_type": "ipv4", "ip_proto": "udp", "dst_port": 4791},
        "actions": [{"order": 1, "kind": "gact", "control_action": {"type": "drop"}}],
    },
}


def test_nft_rules_are_undone_by_their_handle() -> None:
    assert [(rule.drops, rule.undo) for rule in nft_rules(NFT)] == [
        ("UDP 4791", "nft delete rule inet filter input handle 6"),
        ("ARP", "nft delete rule arp guard input handle 2"),
    ]


def test_an_nft_policy_that_drops_needs_a_rule_that_accepts() -> None:
    closed = NFT.replace("policy accept", "policy drop", 1).replace("{ 4791, 5000 }", "5000")
    (rule, _) = nft_rules(closed)
    assert rule.undo == "nft insert rule inet filter input udp dport 4791 accept"
    opened = closed.replace("udp dport 53 drop", "udp dport 4791 accept")
    assert [rule.drops for rule in nft_rules(opened)] == ["ARP"]


@pytest.mark.parametrize(
    ("listed", "undo"),
    [
        (
            "-P INPUT ACCEPT\n-A INPUT -p udp -m udp --dport 4791 -j DROP\n",
            "-D INPUT -p udp -m udp --dport 4791 -j DROP",
        ),
        ("-P INPUT DROP\n-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT\n", "-I INPUT -p udp --dport 4791 -j ACCEPT"),
        ("-A INPUT -p udp -j REJECT --reject-with icmp-port-unreachable\n", f"-D INPUT -p udp -j REJECT {ANSWER}"),
        ("-P INPUT DROP\n-A INPUT -p udp -m udp --dport 4791 -j ACCEPT\n", None),
        ("-P INPUT ACCEPT\n-A INPUT -p udp -m udp --dport 53 -j DROP\n", None),
        ('-A INPUT -p udp --dport 4791 -m comment --comment "$(reboot)" -j DROP\n', None),
    ],
)
def test_iptables_rules_are_deleted_as_they_are_listed(listed: str, undo: str | None) -> None:
    assert [rule.undo for rule in iptables_rules(listed)] == ([f"iptables {undo}"] if undo else [])


def test_filters_of_tc_are_undone_by_their_preference() -> None:
    (rule,) = filters("eth1", "ingress", [{"protocol": "ip", "pref": 49152, "kind": "flower"}, FLOWER])
    assert (rule.drops, rule.undo) == ("UDP 4791", "tc filter del dev eth1 ingress pref 49152")
    other = {**FLOWER, "options": {**FLOWER["options"], "keys": {"dst_port": 53}}}  # type: ignore[dict-item]
    assert not list(filters("eth1", "ingress", [other]))


def test_a_discipline_that_loses_packets_is_a_rule_and_one_that_delays_them_is_none() -> None:
    lossy = {"kind": "netem", "options": {"loss-random": {"loss": 1, "correlation": 0}}}
    assert [rule.undo for rule in losses("eth1", [lossy])] == ["tc qdisc del dev eth1 root"]
    assert not list(losses("eth1", [{"kind": "netem", "options": {"delay": {"delay": 0.05}}}, {"kind": "fq_codel"}]))
