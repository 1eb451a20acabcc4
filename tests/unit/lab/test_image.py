"""Images of machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from collie.errors import LabError
from collie.lab import host, image, lab


def test_the_key_of_an_image_follows_its_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    before = image.image_key("bookworm")
    assert before.startswith("bookworm-")
    assert image.image_key("trixie").partition("-")[2] != before.partition("-")[2]
    monkeypatch.setattr(image, "PACKAGES", (*image.PACKAGES, "tcpdump"))
    assert image.image_key("bookworm") != before


def test_a_mirror_is_passed_on_and_not_part_of_the_key() -> None:
    assert image.bootstrap_argv("bookworm", None)[-2:] == ("bookworm", "tree.tar")
    assert image.bootstrap_argv("bookworm", "https://mirror.example/debian")[-1] == "https://mirror.example/debian"


def test_an_unknown_release_is_refused_with_those_known(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="bookworm and trixie"):
        image.ensure_image("sid", cache_dir=tmp_path)


def test_a_mirror_that_is_no_address_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="--mirror"):
        image.ensure_image("bookworm", cache_dir=tmp_path, mirror="--version")


def test_a_cached_image_is_used_without_any_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "find_program", lambda name: None)
    (tmp_path / image.image_key("trixie")).mkdir()
    assert image.ensure_image("trixie", cache_dir=tmp_path).directory.name == image.image_key("trixie")


def test_missing_programs_are_named_with_their_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "find_program", lambda name: None)
    with pytest.raises(LabError, match=r"apt-get install e2fsprogs .*mmdebstrap"):
        image.ensure_image("bookworm", cache_dir=tmp_path)
    with pytest.raises(LabError, match=r"qemu-system-x86_64.*apt-get install openssh-client qemu-system-x86"):
        lab.up(state_dir=tmp_path / "state", cache_dir=tmp_path)


def test_too_little_disk_is_said_before_anything_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "find_program", lambda name: f"/usr/bin/{name}")
    with pytest.raises(LabError, match="COLLIE_CACHE_DIR"):
        image.ensure_image("bookworm", cache_dir=tmp_path, needed_bytes=1 << 62)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]
