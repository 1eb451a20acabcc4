"""Whether a gate may compare hosts: their differences are under test, or without effect on results. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from collie.inventory.fingerprint import CATEGORIES, Difference

ALIASES: Mapping[str, tuple[str, ...]] = {
    "firmware": ("nic.firmware", "subsystem.firmware"),
    "driver": ("nic.driver", "nic.driver_version", "link.netdev_driver"),
    "kernel": ("software.kernel", "nic.driver_version"),
    "settings": ("subsystem",),
}
"""Words for common changes. Other words are a field (`nic.firmware`), its last part, or a category."""

EVERYTHING = "everything"  # accepts any difference

_NOT_A_SETTING = frozenset(
    f"subsystem.{name}" for name in ("subsystem", "hardware", "noise", "flaky", "outliers", "drift")
)
"""Fields of a simulated subsystem that no setting changes."""


def covers(under_test: Iterable[str], field: str) -> bool:
    """Whether a field (`CATEGORY.NAME`) is under test by the user's words."""
    category, _, name = field.partition(".")
    meant = {each for word in under_test for each in (word, *ALIASES.get(word, ()))}
    if EVERYTHING in meant or field in meant:
        return True
    return field not in _NOT_A_SETTING and not meant.isdisjoint((category, name))


def known_words(fields: Iterable[str]) -> frozenset[str]:
    """Return all valid words, given the fields of the compared hosts."""
    reported = {*fields, *(field for meant in ALIASES.values() for field in meant)}
    return frozenset({EVERYTHING, *ALIASES, *CATEGORIES, *reported, *(field.partition(".")[2] for field in reported)})


def beyond(differences: Iterable[Difference], under_test: Iterable[str]) -> tuple[Difference, ...]:
    """Return the differences that change results and are not under test."""
    words = tuple(under_test)
    return tuple(each for each in differences if each.changes_results and not covers(words, each.field))
