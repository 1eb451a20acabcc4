"""Every file that a command reads or writes, and what may stand in its place instead: FIFOs, devices, sockets, loops.

A `Use` is a file and a command that has to do with it. `answer` puts an oddity in the place of the file, runs the
command in a process of its own, and says what is wrong with its answer: it hung, failed without one message that names
the file, or ended with another exit code than the documentation says. `scripts/acceptance/odd_files.py` runs all cases,
`tests/integration/test_odd_files.py` some of them in every test run.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.odd_inputs import FILES, MADE

ANSWER_SECONDS = 2.0
KILL_SECONDS = 10.0
_GOOD_SECONDS = 120.0
"""For a command whose files are as they should be."""
MAX_BYTES = 300 << 20
"""Of memory, at the peak."""
MAX_LINES = 6
"""Of standard error: one message, and a hint how to go on."""

_ARGV = (sys.executable, "-m", "collie")


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _node(path: Path) -> None:
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound, tempfile.TemporaryDirectory() as short:
        bound.bind(f"{short}/s")  # the path of a socket has at most 107 bytes
        os.rename(f"{short}/s", path)


def _directory(path: Path) -> None:
    path.mkdir()


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _dangling(path: Path) -> None:
    path.symlink_to("nowhere")


ODDITIES: Mapping[str, Callable[[Path], None]] = {
    "FIFO": _fifo,
    "device": _device,
    "device node": _node,
    "socket": _socket,
    "directory": _directory,
    "link loop": _loop,
    "dangling link": _dangling,
}
"""What makes each; a device node takes the rights of root."""

ALL = frozenset(ODDITIES)
_REPLACED = ALL - {"directory"}
"""In the place of a file that Collie writes whole."""
_WRITABLE = frozenset({"device", "device node", "dangling link"})
"""Where a user may want an output."""


@dataclass(frozen=True)
class Use:
    """A file, and a command that has to do with it.

    Attributes:
        file: relative to the stage.
        command: words after `collie`; or of a whole command, if it begins with `python3`.
        refused: exit code where the file is refused.
        passed: oddities that change nothing: the command ends as it does without them.
        named: what a refusal names; the name of the file unless given.
        environment: variables, relative to the stage.
        either: the command may refuse the file or pass over it.
        apart: oddities that are not tried: what they mean is no refusal of the file.
    """

    file: str
    command: tuple[str, ...]
    refused: int = 2
    passed: frozenset[str] = frozenset()
    named: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    either: bool = False
    apart: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.file}: {' '.join(self.command)}"


def _inputs() -> Iterator[Use]:
    hosts = (
        "hosts check",
        "hosts calibrate",
        "hosts fingerprint",
        "measure nsdi22-01",
        "reproduce nsdi22-01",
        "search --budget 4runs --campaign new",
        "fleet",
        "counters list",
        "counters watch --seconds 1",
        "gate --baseline campaign",
        "export nsdi22-08 --as script",
        "hosts diff a b",
        "check nsdi22-01 --measure",
    )
    yield from (Use("hosts.yaml", (*words.split(), "--hosts", "hosts.yaml")) for words in hosts)
    files = {
        "workload.yaml": ("measure @", "check @"),
        "application.yaml": ("check @", "search --budget 4runs --campaign new --space @"),
        "space.yaml": (
            *("space show @", "space validate @", "measure nsdi22-01 --space @", "check nsdi22-01 --space @"),
            "search --budget 4runs --campaign new --space @",
            "subsystem validate A --space @",
        ),
        "recipe.yaml": ("measure nsdi22-01 --recipe @", "search --budget 4runs --campaign new --recipe @"),
        "subsystem.yaml": ("measure nsdi22-01 --subsystem @", "subsystem show @", "subsystem validate @"),
        "base.yaml": ("subsystem show subsystem.yaml",),
        "bundle.pyz": ("reproduce @", "measure @", "export @ --as perftest"),
        "point": ("reproduce @", "measure @", "export @ --as perftest"),
        "print.json": ("hosts diff @ print.json", "hosts diff campaign @"),
    }
    for file, commands in files.items():
        yield from (Use(file, tuple(words.replace("@", file).split())) for words in commands)


def _content() -> Iterator[Use]:
    overlay = {"COLLIE_CONTENT": "overlay"}
    for file, words in (
        ("workloads/spaces/mine.yaml", "space show mine"),
        ("workloads/anomalies/mine-01.yaml", "reproduce mine-01"),
        ("workloads/anomalies/mine-01.yaml", "check rpc-library --against mine"),
        ("workloads/applications/mine.yaml", "check mine"),
        ("search/recipes/mine.yaml", "search --budget 4runs --campaign new --recipe mine"),
        ("subsystems/mine.yaml", "subsystem list"),
        ("subsystems/mine.yaml", "subsystem show mine"),
        ("counters/mine/catalog.yaml", "counters list --driver mine"),
    ):
        yield Use(f"overlay/{file}", tuple(words.split()), environment=overlay)
    yield Use("overlay", ("space", "show"), environment=overlay, passed=frozenset({"directory"}))


READERS = (
    "status @",
    "runs @",
    "runs @ --format csv",
    "report @",
    "report @ --against other",
    "report other --against @",
    "check nsdi22-01 --against @",
    "reproduce @/a1",
    "measure @/a1",
    "export @/a1 --as perftest",
    "search --known @ --budget 4runs --campaign new",
    "gate --baseline @ --budget 4runs --campaign new",
    "hosts diff @ @",
)
"""Commands that read a campaign."""
WRITER = "search --resume @ --budget 70runs"
_WITHOUT_RECORD = {"hosts diff @ @"}
_NEEDS_STATUS = {"gate --baseline @ --budget 4runs --campaign new"}
_FINGERPRINTS = {
    *("report @", "report @ --against other", "report other --against @", "reproduce @/a1", "measure @/a1"),
    *("export @/a1 --as perftest", "search --known @ --budget 4runs --campaign new", "hosts diff @ @"),
    *("gate --baseline @ --budget 4runs --campaign new", WRITER),
}

_NEEDS_FINGERPRINTS = {"hosts diff @ @", "gate --baseline @ --budget 4runs --campaign new"}


def _campaigns() -> Iterator[Use]:
    def use(file: str, words: str, refused: int, passed: frozenset[str] = frozenset(), *, either: bool = False) -> Use:
        return Use(f"campaign/{file}", tuple(words.replace("@", "campaign").split()), refused, passed, either=either)

    for words in (*READERS, WRITER):
        yield use("", words, 2)
        yield use("campaign.sqlite", words, 2, ALL if words in _WITHOUT_RECORD else frozenset())
        for beside in ("campaign.sqlite-wal", "campaign.sqlite-journal", "campaign.sqlite-shm"):
            yield use(beside, words, 2, ALL if words in _WITHOUT_RECORD else frozenset(), either=True)
        yield use("status.json", words, 2, frozenset() if words in _NEEDS_STATUS else ALL)
        read = words in _FINGERPRINTS
        yield use("fingerprint/F.json", words, 2, frozenset() if read else ALL)
        needs = words in _NEEDS_FINGERPRINTS
        yield use("fingerprint", words, 2, frozenset() if needs else frozenset({"directory"}) if read else ALL)
        if words != WRITER:
            yield use("campaign.lock", words, 2, ALL if words in _WITHOUT_RECORD else frozenset(), either=True)
            for file in ("results.jsonl", "log", "log/collie.log", "anomalies", "anomalies/a1"):
                yield use(file, words, 2, ALL)
    yield use("results.jsonl", WRITER, 3, _REPLACED)
    yield Use("new/campaign.lock", ("search", "--budget", "4runs", "--campaign", "new"), 3)
    yield use("log", WRITER, 3, frozenset({"directory"}))
    yield use("log/collie.log", WRITER, 3)
    yield use("anomalies", WRITER, 3, frozenset({"directory"}))
    yield use("anomalies/a1", WRITER, 3, frozenset({"directory"}))
    yield use("anomalies/a1/mfs.json", WRITER, 3, _REPLACED)
    yield use("report.html", WRITER, 3, _REPLACED)
    yield use("report.html", "report @", 3, _REPLACED)
    yield use("against-other.html", "report @ --against other", 3, _REPLACED)
    yield Use("new", ("search", "--budget", "4runs", "--campaign", "new"), 2, frozenset({"directory"}))


def _outputs() -> Iterator[Use]:
    for words in (
        "report campaign -o out.html",
        "report campaign --against other -o out.html",
        "runs campaign -o out.csv",
        "runs campaign --format csv -o out.csv",
        "export nsdi22-08 --as perftest -o out.txt",
        "export nsdi22-08 --as bundle -o out.pyz",
        "subsystem map --x qps --y wqe_batch -o out.svg",
        "fleet --count 4 -o out.html",
        "gate --baseline campaign --budget 4runs --campaign new --junit out.xml",
        "gate --baseline campaign --budget 4runs --campaign new --markdown out.md",
    ):
        yield Use(words.split()[-1], tuple(words.split()), passed=_WRITABLE)
    yield Use("out.prom", ("status", "campaign", "--prometheus", "out.prom"), passed=_REPLACED)
    search = "search --budget 4runs --campaign new --prometheus out.prom"
    yield Use("out.prom", tuple(search.split()), passed=ALL)


def _of_users() -> Iterator[Use]:
    """Yield files of the account: SSH, calibrations, the lab."""
    ask = ("counters", "list", "--hosts", "hosts.yaml")
    yield Use("home/.ssh/config", ask, 3, named=".ssh/config", apart=frozenset({"dangling link"}))
    calibrate = ("hosts", "calibrate", "--hosts", "hosts.yaml")
    yield Use("state/collie/calibrations", calibrate, 3, apart=frozenset({"directory"}))
    for words in ("lab status", "lab ssh lab-a true", "measure nsdi22-01 --hosts lab"):
        # A link that leads nowhere is no lab, as no file is.
        yield Use("state/collie/lab/lab.json", tuple(words.split()), 3, apart=frozenset({"dangling link"}))
    yield Use("state/collie/lab/lab.json", ("lab", "down"), 3, _REPLACED)
    yield Use("state/collie/lab/lock", ("lab", "down"), 3, frozenset({"dangling link"}))
    yield Use("state/collie/lab/hosts.yaml", ("lab", "status"), passed=ALL)
    yield Use("state/collie/lab/hosts.yaml", ("measure", "nsdi22-01", "--hosts", "lab"), either=True)
    run = ("python3", "bundle.pyz", "--hosts")
    yield Use("hosts.json", (*run, "hosts.json"))
    yield Use("known", (*run, "hosts.json", "--known-hosts", "known"))
    keyed = "127.0.0.1:9,rxe0,192.0.2.1,identity_file=key"
    yield Use("key", (*run, keyed, "127.0.0.1:10,rxe0,192.0.2.2"))


USES: tuple[Use, ...] = (*_inputs(), *_content(), *_campaigns(), *_outputs(), *_of_users())


_MEASURED = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[2:])
with open(sys.argv[1], "w") as peak:
    peak.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(code)
"""
"""Runs a command and writes down its peak of memory. A process counts what its parent had, and this one has little."""


@dataclass(frozen=True)
class Answer:
    """What a command did.

    Attributes:
        code: its exit code; None when it had to be killed.
        err: its standard error.
        seconds: until it ended.
        peak_bytes: of memory.
    """

    code: int | None
    err: str
    seconds: float
    peak_bytes: int


class Stage:
    """A folder with one good file of each kind, and a home of its own.

    Args:
        folder: where; made.
        kill_seconds: after which a command is taken to hang.
    """

    def __init__(self, folder: Path, kill_seconds: float = KILL_SECONDS) -> None:
        self.folder = folder
        self._kill_seconds = kill_seconds
        self._good = folder / "good"
        self._codes: dict[tuple[str, ...], int] = {}
        self._good.mkdir(parents=True)
        for name, text in FILES.items():
            (self._good / name).parent.mkdir(parents=True, exist_ok=True)
            (self._good / name).write_text(text)
        for words in MADE:
            done = self._run(Use("", tuple(words.split())), self._good, _GOOD_SECONDS)
            if done.code != 0:
                raise RuntimeError(f"{words} ended with {done.code}: {done.err}")
        shutil.copy(self._good / "campaign" / "fingerprint" / "F.json", self._good / "print.json")

    def answer(self, use: Use, replacement: str | None) -> Answer:
        """Run a command on a fresh copy, with an oddity in the place of its file; None leaves it as it is."""
        with tempfile.TemporaryDirectory(dir=self.folder) as copied:
            place = Path(copied) / "stage"
            shutil.copytree(self._good, place, symlinks=True)
            if replacement is not None:
                path = place / use.file
                path.parent.mkdir(parents=True, exist_ok=True)
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
                ODDITIES[replacement](path)
            return self._run(use, place, _GOOD_SECONDS if replacement is None else self._kill_seconds)

    def wrong(self, use: Use, replacement: str, answer: Answer) -> str:
        """Say what is wrong with an answer; nothing where it is as documented. Time and memory are not looked at."""
        if answer.code is None:
            return f"no answer within {self._kill_seconds:g} s"
        if "Traceback" in answer.err or "unforeseen" in answer.err:
            return f"a fault: {answer.err.strip().splitlines()[-1][:200]}"
        passes = use.either or replacement in use.passed
        if passes and answer.code == self._code_of(use):
            return ""
        if passes and not use.either:
            return f"exit {answer.code} instead of {self._code_of(use)}: {answer.err[:200]}"
        if answer.code != use.refused:
            return f"exit {answer.code} instead of {use.refused}: {answer.err[:200]}"
        said = [line for line in answer.err.splitlines() if line.startswith(("collie: ", "bundle.pyz: "))]
        named = use.named or Path(use.file).name
        if len(said) != 1 or len(answer.err.splitlines()) > MAX_LINES or named not in answer.err:
            return f"not one message that names {named}: {answer.err[:300]}"
        return ""

    def _code_of(self, use: Use) -> int:
        """Return how a command ends with its file as it should be."""
        if use.command not in self._codes:
            code = self.answer(use, None).code
            if code is None:
                raise RuntimeError(f"{use} has no end even with good files")
            self._codes[use.command] = code
        return self._codes[use.command]

    def _run(self, use: Use, place: Path, limit_seconds: float) -> Answer:
        argv = (sys.executable, *use.command[1:]) if use.command[0] == "python3" else (*_ARGV, *use.command)
        home = {"HOME": str(place / "home"), "XDG_STATE_HOME": str(place / "state")}
        own = {name: str(place / value) for name, value in use.environment.items()}
        with (place / ".err").open("w+", errors="replace") as err:
            began = time.monotonic()
            child = subprocess.Popen(
                (sys.executable, "-S", "-c", _MEASURED, str(place / ".peak"), *argv),
                cwd=place,
                env={**os.environ, **home, **own},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=err,
                start_new_session=True,
            )
            try:
                code = child.wait(limit_seconds)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                code = None
            seconds = time.monotonic() - began
            err.seek(0)
            peak = place / ".peak"
            return Answer(code, err.read(1 << 16), seconds, int(peak.read_text()) << 10 if peak.exists() else 0)
