"""Dead links between machines."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from collie.lab import links, spec
from tests.support.lab_specs import make_spec


def test_each_dead_link_is_named_from_the_end_that_asked(state: spec.StateDir, ssh: Path) -> None:
    ssh.write_text("#!/bin/sh\necho dead 192.168.77.1\n", encoding="ascii")
    names = {"lab-a", "lab-b", "lab-c"}
    found = links.dead_links(make_spec(3), state, names)
    assert {(one.source, one.target, one.address) for one in found} == {
        ("lab-b", "lab-a", "192.168.77.1"),
        ("lab-c", "lab-a", "192.168.77.1"),
    }
    assert "lab-b does not reach lab-a at 192.168.77.1" in map(str, found)


def test_a_machine_that_does_not_answer_is_neither_asked_nor_a_dead_link(state: spec.StateDir, ssh: Path) -> None:
    ssh.write_text("#!/bin/sh\necho dead 192.168.77.1; echo dead 192.168.77.2\n", encoding="ascii")
    assert links.dead_links(make_spec(2), state, {"lab-a"}) == ()


def test_a_machine_that_cannot_be_asked_names_no_dead_link(state: spec.StateDir, ssh: Path) -> None:
    ssh.write_text("#!/bin/sh\necho Connection refused; exit 255\n", encoding="ascii")
    assert links.dead_links(make_spec(2), state, {"lab-a", "lab-b"}) == ()


@pytest.mark.parametrize(("reached", "said"), [("127.0.0.1", ""), ("192.0.2.1", "dead 192.0.2.1\n")])
def test_the_probe_prints_the_addresses_that_do_not_answer(tmp_path: Path, reached: str, said: str) -> None:
    (tmp_path / "ping").write_text('#!/bin/sh\nfor last; do :; done; test "$last" = 127.0.0.1\n', encoding="ascii")
    (tmp_path / "ping").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-c", links.probe([reached], 1)], env=environment, capture_output=True, check=True)
    assert done.stdout.decode() == said


def test_machines_on_most_dead_links_are_suspected_first_and_once() -> None:
    dead = [links.DeadLink(one, other, "x") for one, other in (("lab-b", "lab-a"), ("lab-c", "lab-a"))]
    assert links.suspect(dead, ()) == "lab-a"
    assert links.suspect(dead, {"lab-a"}) == "lab-b"
    assert links.suspect(dead, {"lab-a", "lab-b", "lab-c"}) is None
    assert links.suspect([], ()) is None
