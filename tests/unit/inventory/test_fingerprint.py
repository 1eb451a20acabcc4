"""Fingerprints and their differences."""

from __future__ import annotations

from collie.inventory.fingerprint import compare, difference
from tests.support.fingerprints import host


def test_fields_come_in_the_order_in_which_people_look() -> None:
    assert list(host(novel__thing=1).fields) == [
        "nic.firmware", "nic.psid", "pcie.address", "pcie.acs", "pcie.width", "software.kernel", "novel.thing",
    ]  # fmt: skip


def test_equal_different_and_unknown_are_three_answers() -> None:
    found = difference(host(), host(nic__firmware="22.39", nic__psid=None, pcie__address="0000:5e:00.0"))
    assert [(each.field, each.a, each.b, each.unknown) for each in found] == [
        ("nic.firmware", "22.36", "22.39", False),
        ("nic.psid", "MT_1", None, True),
        ("pcie.address", "0000:3b:00.0", "0000:5e:00.0", False),
    ]
    assert [each.changes_results for each in found] == [True, True, False]
    assert difference(host(), host()) == (), "unknown on both sides says nothing"


def test_a_field_that_one_side_lacks_is_unknown_there() -> None:
    [found] = difference(host(), host(novel__thing=1))
    assert (found.field, found.a, found.b, found.changes_results) == ("novel.thing", None, 1, True)


def test_the_digest_names_what_changes_results_and_nothing_else() -> None:
    assert host().digest == host(pcie__address="0000:5e:00.0").digest
    assert host().digest != host(pcie__width=8).digest
    assert host().digest != host(nic__psid=None).digest


def test_hosts_are_compared_by_name_else_in_order_and_none_is_left_out() -> None:
    one, other = host(), host(pcie__width=8)
    [first, second] = compare({"x": one, "y": other}, {"y": other, "x": one})
    assert not first.differences
    assert not second.differences
    [found] = compare({"x": one}, {"z": other})
    assert (found.a, found.b) == ("x", "z")
    assert found.changes_results
    alone = compare({"x": one, "y": one}, {"z": one})[1]
    assert (alone.a, alone.b) == ("y", "nobody")
    assert all(each.unknown for each in alone.differences)
