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
    assert [(rule.drops, rule.undo) for rule in nft_rules("eth1", NFT)] == [
        ("UDP 4791", "nft delete rule inet filter input handle 6"),
        ("ARP", "nft delete rule arp guard input handle 2"),
    ]


def test_an_nft_policy_that_drops_needs_a_rule_that_accepts() -> None:
    closed = NFT.replace("policy accept", "policy drop", 1).replace("{ 4791, 5000 }", "5000")
    (rule, _) = nft_rules("eth1", closed)
    assert (rule.undo, rule.surely) == ("nft insert rule inet filter input udp dport 4791 accept", False)
    assert "may drop" in rule.text
    opened = closed.replace("udp dport 53 drop", "udp dport 4791 accept")
    assert [rule.drops for rule in nft_rules("eth1", opened)] == ["ARP"]


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
    assert [rule.undo for rule in iptables_rules("eth1", listed)] == ([f"iptables {undo}"] if undo else [])


def test_filters_of_tc_are_undone_by_their_preference() -> None:
    (rule,) = filters("eth1", "ingress", [{"protocol": "ip", "pref": 49152, "kind": "flower"}, FLOWER])
    assert (rule.drops, rule.undo) == ("UDP 4791", "tc filter del dev eth1 ingress pref 49152")
    other = {**FLOWER, "options": {**FLOWER["options"], "keys": {"dst_port": 53}}}  # type: ignore[dict-item]
    assert not list(filters("eth1", "ingress", [other]))


def test_a_discipline_that_loses_packets_is_a_rule_and_one_that_delays_them_is_none() -> None:
    lossy = {"kind": "netem", "options": {"loss-random": {"loss": 1, "correlation": 0}}}
    assert [(rule.undo, rule.surely) for rule in losses("eth1", [lossy])] == [("tc qdisc del dev eth1 root", True)]
    assert not list(losses("eth1", [{"kind": "netem", "options": {"delay": {"delay": 0.05}}}, {"kind": "fq_codel"}]))


@pytest.mark.parametrize(("share", "said"), [(0.001, "loses 0.1% of"), (0.5, "loses 50% of")])
def test_a_discipline_that_loses_some_packets_is_not_sure_to_lose_a_path(share: float, said: str) -> None:
    (rule,) = losses("eth1", [{"kind": "netem", "options": {"loss-random": {"loss": share, "correlation": 0}}}])
    assert not rule.surely
    assert said in rule.text


UFW = """-P INPUT DROP
-P FORWARD DROP
-P OUTPUT ACCEPT
-N ufw-before-input
-N ufw-user-input
-A INPUT -j ufw-before-input
-A INPUT -j ufw-user-input
-A FORWARD -p udp -j DROP
-A ufw-before-input -i lo -j ACCEPT
-A ufw-before-input -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A ufw-before-input -m conntrack --ctstate INVALID -j DROP
-A ufw-before-input -d 224.0.0.251/32 -p udp -m udp --dport 5353 -j ACCEPT
-A ufw-user-input -p tcp -m tcp --dport 22 -m comment --comment "for -i eth1 -j DROP" -j ACCEPT
"""


def of_roce(listed: str) -> list[tuple[bool, str]]:
    return [(rule.surely, rule.undo) for rule in iptables_rules("eth1", listed)]


def test_a_policy_alone_may_drop_and_is_opened() -> None:
    assert of_roce(UFW) == [(False, "iptables -I INPUT -p udp --dport 4791 -j ACCEPT")]
    assert all("may drop" in rule.text for rule in iptables_rules("eth1", UFW))


@pytest.mark.parametrize(
    "accepts",
    [
        "-A INPUT -i eth1 -j ACCEPT",
        "-A INPUT -i eth+ -j ACCEPT",
        "-A INPUT ! -i eth0 -j ACCEPT",
        "-A ufw-user-input -i eth1 -j ACCEPT",
        "-A ufw-user-input -p udp -m multiport --dports 53,4000:5000 -j ACCEPT",
        "-A ufw-user-input -s 192.0.2.0/24 -p udp -m udp --dport 4791 -j ACCEPT",
        "-A INPUT -p udp -m udp ! --dport 53 -j ACCEPT",
    ],
)
def test_a_rule_that_accepts_roce_outweighs_a_policy(accepts: str) -> None:
    assert of_roce(f"{UFW}{accepts}\n") == []


@pytest.mark.parametrize(
    "accepts",
    [
        "-A INPUT -i eth0 -j ACCEPT",
        "-A INPUT ! -i eth1 -j ACCEPT",
        "-A ufw-user-input -o eth1 -j ACCEPT",
        "-A OUTPUT -j ACCEPT",
        "-A ufw-user-input -p udp -m multiport --dports 5000:6000 -j ACCEPT",
        "-A ufw-user-input -p tcp -m tcp --dport 4791 -j ACCEPT",
        "-A INPUT -s 198.51.100.0/24 -j ACCEPT",
    ],
)
def test_a_rule_that_accepts_something_else_does_not(accepts: str) -> None:
    assert [sure for sure, _ in of_roce(f"{UFW}{accepts}\n")] == [False]


@pytest.mark.parametrize(
    ("rule", "sure"),
    [
        ("-A INPUT -i eth1 -j DROP", [True]),
        ("-A INPUT -p udp -m udp --dport 4000:5000 -j DROP", [True]),
        ("-A INPUT -p udp -m udp ! --dport 53 -j DROP", [True]),
        ("-A fail2ban -p udp -m udp --dport 4791 -j DROP", [True]),
        ("-A INPUT -i eth0 -p udp -m udp --dport 4791 -j DROP", []),
        ("-A INPUT -p udp -m udp ! --dport 4791 -j DROP", []),
        ("-A INPUT -s 192.0.2.9/32 -j DROP", []),
        ("-A INPUT -p udp -m conntrack --ctstate INVALID -j DROP", []),
        ("-A DOCKER-USER -i eth1 -j DROP", []),
        ("-A FORWARD -p udp -m udp --dport 4791 -j DROP", []),
        ("-A INPUT -j REJECT --reject-with icmp-host-prohibited", [False]),
        ("-A INPUT -i eth1 -j ACCEPT\n-A INPUT -p udp -j DROP", []),
        ("-A INPUT -p udp -m udp --dport 4791 -j DROP\n-A INPUT -i eth1 -j ACCEPT", [True]),
        ("-A ufw-user-input -i eth1 -j ACCEPT\n-A INPUT -j DROP", []),
        ("-A ufw-user-input -i eth1 -j ACCEPT\n-A INPUT -p udp -j DROP", []),
        ("-A fail2ban -p udp -m udp ! --dport 53 -j DROP", []),
    ],
)
def test_a_rule_is_a_cause_where_it_takes_roce_of_the_network_device(rule: str, sure: list[bool]) -> None:
    assert [sure for sure, _ in of_roce(f"-P INPUT ACCEPT\n{rule}\n")] == sure


def test_a_last_rule_that_drops_all_is_opened_and_not_deleted() -> None:
    assert of_roce("-A INPUT -j DROP\n") == [(False, "iptables -I INPUT -p udp --dport 4791 -j ACCEPT")]


INPUT = "type filter hook input priority filter; policy accept;"


@pytest.mark.parametrize(
    ("hook", "line", "sure"),
    [
        (INPUT, "udp dport != 4791 drop", []),
        (INPUT, "udp dport != 53 drop", [True]),
        (INPUT, "udp dport 4000-5000 counter packets 7 bytes 90 drop", [True]),
        (INPUT, "udp dport { 53, 4000-5000 } drop", [True]),
        (INPUT, "udp sport 4791 drop", []),
        (INPUT, "meta l4proto { tcp, udp } th dport 4791 reject with icmp port-unreachable", [True]),
        (INPUT, "tcp dport 4791 drop", []),
        (INPUT, 'iifname "eth1" drop', [True]),
        (INPUT, 'iifname { "eth0", "eth2" } udp dport 4791 drop', []),
        (INPUT, 'iifname != "lo" drop', [True]),
        (INPUT, 'udp dport 4791 accept comment "no drop"', []),
        (INPUT, 'udp dport 4791 log prefix "accept " drop', [True]),
        (INPUT, "ct state invalid drop", []),
        (INPUT, "reject with icmpx admin-prohibited", [False]),
        (INPUT.replace("input", "forward"), "udp dport 4791 drop", []),
        ("", "udp dport 4791 drop", [True]),
        ("", "drop", []),
        (INPUT.replace("accept", "drop"), "tcp dport 22 accept", [False]),
        (INPUT.replace("accept", "drop"), 'iifname "eth1" accept', []),
        (INPUT.replace("accept", "drop"), "udp dport 4000-5000 accept", []),
        (INPUT.replace("accept", "drop"), "ct state established,related accept", [False]),
        (INPUT.replace("input", "forward").replace("accept", "drop"), "tcp dport 22 accept", []),
        ('type filter hook ingress device "eth0" priority 0; policy drop;', "tcp dport 22 accept", []),
        ('type filter hook ingress device "eth1" priority 0; policy drop;', "tcp dport 22 accept", [False]),
    ],
)
def test_an_nft_rule_is_a_cause_where_it_takes_roce_of_the_network_device(
    hook: str, line: str, sure: list[bool]
) -> None:
    ruleset = f"table inet t {{ # handle 1\n\tchain c {{ # handle 2\n\t\t{hook}\n\t\t{line} # handle 3\n\t}}\n}}\n"
    assert [rule.surely for rule in nft_rules("eth1", ruleset)] == sure
