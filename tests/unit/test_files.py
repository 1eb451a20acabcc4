"""Files that somebody else may have put there."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from collie.files import Folder, is_file_name, open_output, open_regular, read_bytes, require_output
from tests.support.odd_files import ODDITIES

REFUSALS = {
    "FIFO": "it is a FIFO, not a regular file",
    "socket": "it is a socket, not a regular file",
    "link loop": "Too many levels of symbolic links",
    "directory": "it is a directory, not a regular file",
    "device": "it is a device, not a regular file",
}


@pytest.mark.parametrize("kind", REFUSALS)
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_APPEND])
def test_what_is_no_regular_file_is_refused_at_once(kind: str, flags: int, tmp_path: Path) -> None:
    make, message = ODDITIES[kind], REFUSALS[kind]
    make(tmp_path / "odd")
    with pytest.raises(OSError, match=message):
        open_regular(tmp_path / "odd", flags)


@pytest.mark.parametrize("kind", REFUSALS)
def test_nothing_below_a_folder_is_reached_through_a_link(kind: str, tmp_path: Path) -> None:
    make, message = ODDITIES[kind], REFUSALS[kind]
    (tmp_path / "inside").mkdir()
    make(tmp_path / "inside" / "odd")
    message = "symbolic link" if (tmp_path / "inside" / "odd").is_symlink() else message
    with Folder(tmp_path) as folder, folder.below("inside") as inside:
        with pytest.raises(OSError, match=message):
            inside.read("odd", 10)
        inside_is_link = tmp_path / "link"
        inside_is_link.symlink_to("inside")
        with pytest.raises(OSError, match="symbolic link"):
            folder.below("link")


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_bytes(tmp_path / "file", 5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 bytes"):
        read_bytes(tmp_path / "file", 4)


def test_a_link_in_the_place_of_a_file_is_replaced_and_its_target_stays(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("as it was")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "report").symlink_to("../outside")
    (tmp_path / "inside" / f".report.{threading.get_native_id()}.new").symlink_to("../outside")
    with Folder(tmp_path / "inside") as folder:
        folder.write("report", ["new"])
    assert (tmp_path / "outside").read_text() == "as it was"
    assert (tmp_path / "inside" / "report").read_text() == "new"
    assert (tmp_path / "inside" / "report").stat().st_mode & 0o777 == 0o600


def test_folders_are_made_on_the_way(tmp_path: Path) -> None:
    with Folder(tmp_path) as folder, folder.below("a", "b", create_mode=0o700) as inner:
        inner.write("file", ["text"])
        assert inner.names() == ["file"]
    assert (tmp_path / "a" / "b" / "file").read_text() == "text"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["", ".", "..", "../file", "a/b", "nul\0"])
def test_a_name_that_leaves_its_folder_is_refused(name: str, tmp_path: Path) -> None:
    with Folder(tmp_path) as folder, pytest.raises(OSError, match="no name of a file"):
        folder.read(name, 10)


def test_a_link_is_distinguished_from_its_target(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/zero")
    with Folder(tmp_path) as folder:
        found = folder.stat("link")
        assert found is not None
        assert stat.S_ISLNK(found.st_mode)
        assert folder.stat("nothing") is None


def test_an_error_in_a_folder_names_the_whole_path(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("elsewhere")
    (tmp_path / "directory").mkdir()
    with Folder(tmp_path) as folder:
        for name, use in (
            ("link", lambda: folder.read("link", 10)),
            ("none", lambda: folder.open("none")),
            ("directory", lambda: folder.write("directory", ["text"])),
        ):
            with pytest.raises(OSError) as caught:  # noqa: PT011 - of which kind says its path
                use()
            assert caught.value.filename == str(tmp_path / name)


def test_what_could_not_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("as it was")

    def parts() -> Iterator[str]:
        yield "half of "
        raise KeyboardInterrupt

    with Folder(tmp_path) as folder, pytest.raises(KeyboardInterrupt):
        folder.write("file", parts())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "as it was"


def test_an_output_is_a_file_a_terminal_or_a_fifo_that_is_read(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    for name, mode in (("file", 0o600), ("link", 0o644)):
        with os.fdopen(open_output(tmp_path / name, mode), "w") as file:
            file.write("new")
    with os.fdopen(open_output(tmp_path / "file", append=True), "w") as file:
        file.write("er")
    assert (tmp_path / "file").read_text() == "newer"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    os.close(open_output("/dev/null"))
    os.mkfifo(tmp_path / "fifo")
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(open_output(tmp_path / "fifo"), "w") as file:
        file.write("text")
    assert os.read(reader, 100) == b"text"
    require_output(tmp_path / "fifo")
    os.set_blocking(reader, False)
    with pytest.raises(BlockingIOError):  # and not the end: the FIFO is held open
        os.read(reader, 100)
    os.close(reader)
    for use in (require_output, open_output):
        with pytest.raises(OSError, match="it is a FIFO without a reader"):
            use(tmp_path / "fifo")


@pytest.mark.parametrize("kind", ["socket", "link loop", "directory"])
def test_an_output_that_is_no_place_to_write_to_is_refused(kind: str, tmp_path: Path) -> None:
    make, message = ODDITIES[kind], REFUSALS[kind]
    make(tmp_path / "odd")
    for use in (require_output, open_output):
        with pytest.raises(OSError, match=message):
            use(tmp_path / "odd")


@pytest.mark.parametrize("kind", REFUSALS)
def test_whatever_is_no_directory_stands_for_a_file(kind: str, tmp_path: Path) -> None:
    make = ODDITIES[kind]
    make(tmp_path / "odd")
    (tmp_path / "dangling").symlink_to("nowhere")
    assert is_file_name(tmp_path / "odd") == (kind != "directory")
    assert is_file_name(tmp_path / "dangling")
    assert not is_file_name(tmp_path / "nothing")
    assert not is_file_name("nul\0")


def test_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    texts = [letter * 20_000 for letter in "abcd"]

    def write(text: str) -> None:
        with Folder(tmp_path) as folder:
            for _ in range(20):
                folder.write("file", [text[:10_000], text[10_000:]])
                assert (tmp_path / "file").read_text() in texts

    with ThreadPoolExecutor(len(texts)) as executor:
        list(executor.map(write, texts))
    assert os.listdir(tmp_path) == ["file"]


def test_what_a_killed_writer_left_goes_with_the_next_write(tmp_path: Path) -> None:
    abandoned, under_way = (tmp_path / f".file.{number}.new" for number in (2**31, os.getppid()))
    abandoned.touch()
    under_way.touch()
    with Folder(tmp_path) as folder:
        folder.write("file", ["text"])
    assert set(tmp_path.iterdir()) == {tmp_path / "file", under_way}
