"""Conformance of `Remote`. Subclass `RemoteSuite` and give it the fixture `remote`."""

from __future__ import annotations

import time

import pytest

from collie.errors import CommandFailed, CommandTimeout
from collie.ports import Remote

SOON = 20.0  # longer than any step of these tests on a loaded emulated machine


class RemoteSuite:
    """Conformance of a `Remote` on any Linux host with coreutils, in an empty working directory."""

    @pytest.fixture
    def remote(self) -> Remote:
        """The implementation under test. The fixture closes it."""
        raise NotImplementedError

    def test_output_errors_and_status_of_a_command_come_back(self, remote: Remote) -> None:
        done = remote.run(["sh", "-c", "printf out; echo err >&2; exit 3"], SOON)
        assert (done.status, done.stdout, done.stderr.strip()) == (3, "out", "err")

    @pytest.mark.parametrize(
        "text", ["two  words", "$HOME", "`id`; id", "it's", 'a "b" \\', "line\nline", "*", "é", ""]
    )
    def test_an_argument_arrives_as_it_was_given(self, remote: Remote, text: str) -> None:
        assert remote.run(["printf", "%s", text], SOON).stdout == text

    def test_a_program_that_does_not_exist_is_a_status_and_no_exception(self, remote: Remote) -> None:
        done = remote.run(["no-such-program"], SOON)
        assert done.status == 127
        assert "no-such-program" in done.stderr

    def test_a_command_has_no_standard_input(self, remote: Remote) -> None:
        assert remote.run(["cat"], SOON).stdout == ""

    def test_much_output_on_both_streams_blocks_nothing(self, remote: Remote) -> None:
        script = "i=0; while [ $i -lt 3000 ]; do printf '%0200d\\n' $i; printf '%0200d\\n' $i >&2; i=$((i+1)); done"
        done = remote.run(["sh", "-c", script], 3 * SOON)
        assert len(done.stdout) == 3000 * 201
        assert done.stderr.strip().endswith("2999")

    def test_a_command_that_takes_too_long_is_ended(self, remote: Remote) -> None:
        with pytest.raises(CommandTimeout) as caught:
            remote.run(["sh", "-c", "echo $$ >pid; exec sleep 60"], 1.0)
        assert caught.value.host == remote.name
        pid = remote.run(["cat", "pid"], SOON).stdout.strip()
        assert self._ends(remote, pid)

    def test_a_file_is_written_for_its_owner_alone(self, remote: Remote) -> None:
        data = bytes(range(256)) * 400
        remote.put(data, "new/deep/file")
        modes = remote.run(["stat", "-c", "%a %s", "new", "new/deep", "new/deep/file"], SOON).stdout.splitlines()
        assert [line.split()[0] for line in modes] == ["700", "700", "600"]
        assert modes[2].split()[1] == str(len(data))

    def test_a_file_is_replaced_and_nothing_else_is_left(self, remote: Remote) -> None:
        remote.put(b"long old content", "folder/file")
        remote.put(b"new\x00\xff", "folder/file")
        assert remote.run(["ls", "-A", "folder"], SOON).stdout.split() == ["file"]
        assert remote.run(["od", "-An", "-tx1", "folder/file"], SOON).stdout.split() == ["6e", "65", "77", "00", "ff"]

    def test_a_file_that_cannot_be_written_says_so(self, remote: Remote) -> None:
        with pytest.raises(CommandFailed) as caught:
            remote.put(b"", "/proc/no/such/file")
        assert caught.value.host == remote.name
        assert "/proc/no/such/file" in str(caught.value)

    def test_lines_go_to_a_command_and_come_back(self, remote: Remote) -> None:
        channel = remote.open(["cat"])
        for line in ("one", "", "zwölf", "x" * 100_000):
            channel.send_line(line)
            assert channel.read_line(SOON) == line
        channel.close()

    def test_a_line_that_does_not_come_is_a_timeout_and_may_come_later(self, remote: Remote) -> None:
        channel = remote.open(["cat"])
        with pytest.raises(CommandTimeout):
            channel.read_line(0.3)
        channel.send_line("late")
        assert channel.read_line(SOON) == "late"
        channel.close()

    def test_the_end_of_output_is_none_after_a_last_unfinished_line(self, remote: Remote) -> None:
        channel = remote.open(["printf", "first\\nlast"])
        assert [channel.read_line(SOON) for _ in range(4)] == ["first", "last", None, None]
        channel.close()

    def test_the_last_words_of_a_command_are_kept(self, remote: Remote) -> None:
        channel = remote.open(["sh", "-c", "i=0; while [ $i -lt 2000 ]; do echo word $i >&2; i=$((i+1)); done; exit 1"])
        assert channel.read_line(SOON) is None
        assert channel.stderr_tail().splitlines()[-1] == "word 1999"
        channel.close()

    def test_a_program_that_does_not_exist_ends_its_channel_with_a_word(self, remote: Remote) -> None:
        channel = remote.open(["no-such-program"])
        assert channel.read_line(SOON) is None
        assert "no-such-program" in channel.stderr_tail()
        channel.close()

    def test_a_line_to_a_command_that_has_ended_is_dropped(self, remote: Remote) -> None:
        channel = remote.open(["true"])
        assert channel.read_line(SOON) is None
        channel.send_line("anybody there?")
        assert channel.read_line(SOON) is None
        channel.close()

    def test_closing_a_channel_ends_its_command(self, remote: Remote) -> None:
        channel = remote.open(["sh", "-c", "echo $$; exec cat"])
        pid = channel.read_line(SOON)
        assert pid
        channel.close()
        channel.close()
        assert self._ends(remote, pid)

    def test_two_commands_run_side_by_side(self, remote: Remote) -> None:
        first, second = remote.open(["cat"]), remote.open(["cat"])
        second.send_line("2")
        first.send_line("1")
        assert (first.read_line(SOON), second.read_line(SOON)) == ("1", "2")
        assert remote.run(["echo", "3"], SOON).stdout == "3\n"
        first.close()
        second.close()

    @staticmethod
    def _ends(remote: Remote, pid: str) -> bool:
        for _ in range(50):
            state = remote.run(["sh", "-c", f"cut -d' ' -f3 /proc/{int(pid)}/stat 2>/dev/null"], SOON).stdout.strip()
            if state in ("", "Z"):
                return True
            time.sleep(0.1)
        return False
