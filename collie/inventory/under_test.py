"""What a gate may compare: hosts that differ in what is under test, and in nothing else that changes results. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from collie.inventory.fingerprint import CATEGORIES, Difference

ALIASES: Mapping[str, tuple[str, ...]] = {
    "firmware": ("nic.firmware", "subsystem.firmware"),
    "driver": ("nic.driver", "nic.driver_version", "link.netdev_driver"),
    "kernel": ("software.kernel", "nic.driver_version"),
    "settings": ("subsystem",),
}
"""Words for what people change; every other word is a field (`nic.firmware`), its last part, or a category."""

EVERYTHING = "everything"
"""Compare whatever differs."""

_NOT_A_SETTING = frozenset({"subsystem.subsystem", "subsystem.hardware", "subsystem.noise"})
"""Of a simulated subsystem: what no setting changes, or only the digest of all of them."""


def covers(under_test: Iterable[str], field: str) -> bool:
    """Whether a field of a fingerprint is among what is under test.

    Args:
        under_test: words as the user wrote them.
        field: `CATEGORY.NAME`.
    """
    category, _, name = field.partition(".")
    meant = {each for word in under_test for each in (word, *ALIASES.get(word, ()))}
    if EVERYTHING in meant or field in meant:
        return True
    return field not in _NOT_A_SETTING and not meant.isdisjoint((category, name))


def known_words(fields: Iterable[str]) -> frozenset[str]:
    """Return every word that means something: one for a change, a field, the last part of a field, or a category.

    Args:
        fields: of the hosts that are compared, `CATEGORY.NAME` each.
    """
    reported = {*fields, *(field for meant in ALIASES.values() for field in meant)}
    return frozenset({EVERYTHING, *ALIASES, *CATEGORIES, *reported, *(field.partition(".")[2] for field in reported)})


def beyond(differences: Iterable[Difference], under_test: Iterable[str]) -> tuple[Difference, ...]:
    """Return the differences that change results and are not under test."""
    words = tuple(under_test)
    return tuple(each for each in differences if each.changes_results and not covers(words, each.field))
