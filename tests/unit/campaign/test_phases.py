"""Places of runs on set-ups."""

from __future__ import annotations

from collie.campaign.phases import Place, with_places
from collie.testing.store_suite import measured, phase


def test_phases_are_numbered_on_each_set_up_also_where_two_pairs_run_at_once() -> None:
    runs = [measured(1), phase(2, 2), phase(3, 3), phase(4, 2), phase(5, 3), phase(6, 2), measured(7)]
    placed = list(with_places(runs))
    assert [record for record, _ in placed] == runs
    assert [(place.set_up, place.phase) for _, place in placed] == [
        *((1, 1), (2, 1), (3, 1), (2, 2), (3, 2), (2, 3), (7, 1)),
    ]
    assert [record.made_set_up for record in runs] == [place.phase == 1 for _, place in placed]


def test_a_place_is_named() -> None:
    assert str(Place(58, 3)) == "phase 3 on the set-up of run 58"
