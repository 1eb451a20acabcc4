"""Faults that strike campaigns on the simulator, and on hosts that are pretended.

Each function strikes once and returns in a few words what came of it; what should not have been goes to the trial.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from collie.store.directory import LOCK_NAME
from tests.support.faults.disks import clock_stepped, disk_full, file_too_large, machine_rebooted, store_read_only
from tests.support.faults.kills import CAMPAIGN
from tests.support.faults.processes import Controller, marked
from tests.support.faults.records import rows
from tests.support.faults.trial import Missed, Trial

Fault = Callable[[Trial], str]

_LAST_RUNS = 5
"""Of a campaign: what is sent meanwhile may come too late, as a run takes milliseconds."""
_PYTHON_CPU_SECONDS = 0.2
"""Before that it is Python that starts, and what it says of an interrupt is its own."""

# --- Signals ----------------------------------------------------------------------------------------------------------


def controller_killed(trial: Trial) -> str:
    """SIGKILL at any instant."""
    with trial.controller() as controller:
        trial.let_run(controller)
        trial.note()
        controller.send(signal.SIGKILL)
        trial.end(controller)
    trial.inspect()
    return "resumed"


def controller_stopped(trial: Trial) -> str:
    """SIGSTOP, while others look and try to take over; then SIGCONT."""
    with trial.controller() as controller:
        trial.let_run(controller, recorded=True)
        controller.send(signal.SIGSTOP)
        trial.note()
        trial.inspect()
        _refused(trial, controller)
        controller.send(signal.SIGCONT)
        before = len(rows(trial.campaign))
        trial.wait_for_more_or_end(controller, before)
        controller.send(signal.SIGKILL)
        trial.end(controller)
    return "went on by itself"


def controller_interrupted(trial: Trial) -> str:
    """SIGINT at any instant, once or twice."""
    return _interrupted(trial, signal.SIGINT)


def controller_terminated(trial: Trial) -> str:
    """SIGTERM at any instant, once or twice."""
    return _interrupted(trial, signal.SIGTERM)


def _interrupted(trial: Trial, number: signal.Signals) -> str:
    with trial.controller() as controller:
        trial.let_run(controller, earliest=_PYTHON_CPU_SECONDS)
        trial.note()
        begun, measured, twice = trial.database.exists(), len(rows(trial.campaign)), trial.rng.random() < 0.3
        controller.send(number)
        if twice:
            time.sleep(trial.rng.uniform(0.0, 0.3))
            controller.send(number)
        ended = trial.end(controller)
    assert trial.whole is not None, "only a campaign that was left alone tells when another has come to its end"
    allowed = {130}
    if not begun:  # Python itself has not begun to listen
        allowed.add(-number)
    if measured + _LAST_RUNS >= len(trial.whole.record.parts["runs"]):
        allowed.add(0)
    trial.expect(ended.code in allowed, f"exit {ended.code} after {number.name} at run {measured}: {ended.err[-300:]}")
    said = trial.inspect()
    if ended.code == 130 and begun and "--resume" in ended.err:
        state = said.get("state")  # ended, where only the report was still to be written
        trial.expect(state in ("interrupted", "ended"), f"status says {state} after {number.name}")
        return "cleaned up, exit 130; resumed"
    return "ended while it started or ended; resumed"


# --- Two at once ------------------------------------------------------------------------------------------------------


def two_controllers(trial: Trial) -> str:
    """A second process would go on with a campaign, or begin one, where the first is at work."""
    with trial.controller() as controller:
        trial.let_run(controller, recorded=True)
        trial.note()
        _refused(trial, controller)
        anew = trial.ask(*trial.course.begin)
        trial.expect(anew.code == 2 and "already holds a campaign" in anew.err, f"begun on top: {anew}")
        trial.wait_for_more_or_end(controller, len(rows(trial.campaign)))
        trial.inspect()
        controller.send(signal.SIGKILL)
        trial.end(controller)
    return "the second was refused, naming the first; the first went on"


def _refused(trial: Trial, holder: Controller) -> None:
    answer = trial.ask(*trial.course.resume)
    if not holder.has_open(trial.campaign / LOCK_NAME):
        trial.expect(holder.has_answered, "a controller gave up its campaign before the end of it")
        raise Missed
    trial.expect(answer.code == 2, f"a second controller: exit {answer.code}: {answer.err}")
    named = f"in use by process {holder.process.pid}"
    trial.expect(named in answer.err, f"a second controller is not told {named!r}: {answer.err}")


# --- Files ------------------------------------------------------------------------------------------------------------


def log_deleted(trial: Trial) -> str:
    """Somebody tidies up SQLite's write-ahead log of a campaign that was killed."""
    with trial.controller() as controller:
        trial.let_run(controller, recorded=True)
        if trial.rng.random() < 0.5:
            trial.wait_for(controller, lambda: _told_runs(trial) > 0)
        controller.send(signal.SIGKILL)
        trial.end(controller)
    for name in ("campaign.sqlite-wal", "campaign.sqlite-shm"):
        (trial.campaign / name).unlink(missing_ok=True)
    trial.inspect()
    lost = _told_runs(trial) - max(rows(trial.campaign), default=0)
    with trial.controller() as controller:
        ended = trial.end(controller)
    trial.expect(ended.code == 0, f"exit {ended.code}: {ended.err[-300:]}")
    trial.finish()  # the simulator makes the same runs again
    trial.over = True
    if lost > 0:
        trial.expect(f"{lost} run" in ended.err, f"{lost} runs are lost, and nobody says so: {ended.err[:500]}")
        trial.expect(
            f"{lost} run" in trial.log, f"{lost} runs are lost, and the log does not say so: {trial.log[-500:]}"
        )
        return "said how many runs are lost, and made them again"
    return "made again what nobody had been told of"


def _told_runs(trial: Trial) -> int:
    """Return of how many runs `status.json` has told."""
    path = trial.campaign / "status.json"
    return int(json.loads(path.read_text())["standing"]["runs"]) if path.exists() else 0


def store_truncated(trial: Trial) -> str:
    """The record is cut off at a random place."""
    return _spoiled(trial, _cut)


def store_corrupted(trial: Trial) -> str:
    """A bit, some bytes or some sectors of the record are not what they were."""
    return _spoiled(trial, _scribble)


def _cut(trial: Trial, path: Path) -> None:
    os.truncate(path, trial.rng.randrange(path.stat().st_size))


def _scribble(trial: Trial, path: Path) -> None:
    rng, size = trial.rng, path.stat().st_size
    length = rng.choice([1, 1, 16, 512, 4096])
    place = rng.randrange(max(1, size - length))
    with path.open("r+b") as file:
        file.seek(place)
        before = file.read(length)
        after = rng.choice([_flipped(before, rng.randrange(8)), rng.randbytes(length), bytes(length)])
        file.seek(place)
        file.write(after if length > 1 else _flipped(before, rng.randrange(8)))


def _flipped(data: bytes, bit: int) -> bytes:
    return bytes([data[0] ^ (1 << bit)]) + data[1:]


def _spoiled(trial: Trial, spoil: Callable[[Trial, Path], None]) -> str:
    """Spoil the record of a campaign that was killed or interrupted; nothing may then be taken for what it is not."""
    with trial.controller() as controller:
        trial.let_run(controller, recorded=True)
        trial.note()
        controller.send(trial.rng.choice([signal.SIGKILL, signal.SIGTERM]))
        trial.end(controller)
    log = trial.campaign / "campaign.sqlite-wal"
    target = log if log.exists() and log.stat().st_size and trial.rng.random() < 0.3 else trial.database
    spoil(trial, target)
    for words in (("status", CAMPAIGN), ("runs", CAMPAIGN), ("report", CAMPAIGN, "-o", "../spoiled.html")):
        answer = trial.ask(*words)
        trial.expect(answer.code in (0, 3) or _says_what(answer.err), f"{words[0]}: {answer.err}")
    (trial.folder.parent / "spoiled.html").unlink(missing_ok=True)
    lost = _told_runs(trial) - _last_readable(trial)
    with trial.controller() as controller:
        ended = trial.end(controller)
    trial.over = True
    if ended.code == 0:
        trial.expect(lost <= 0 or f"{lost} run" in ended.err, f"{lost} runs are lost, and nobody says so: {ended.err}")
        trial.reported.clear()
        trial.finish()  # the record must be what it would have been
        return "said what is lost, and made it again" if lost > 0 else "nothing was lost"
    trial.expect(ended.code == 2 and _says_what(ended.err), f"exit {ended.code}: {ended.err}")
    return "refused, saying what is broken and what can be done"


def _last_readable(trial: Trial) -> int:
    try:
        return max(rows(trial.campaign), default=0)
    except sqlite3.DatabaseError:
        return 0


def _says_what(text: str) -> bool:
    return (
        "campaign.sqlite" in text
        and re.search(r"damaged|is not a campaign|cannot be read|another version", text) is not None
    )


# --- Hosts ------------------------------------------------------------------------------------------------------------


def agent_killed(trial: Trial) -> str:
    """SIGKILL of the agent on a host, during a run."""
    with trial.controller() as controller:
        trial.let_run(controller, recorded=True)
        pid = _agent(trial, controller)
        before, said = len(rows(trial.campaign)), len(trial.log)
        os.kill(pid, signal.SIGKILL)
        trial.wait_for_more_or_end(controller, before + 1)
        trial.note()
        new = trial.log[said:]
        named = re.search(r"left|right", new) is not None and "attempt 1" in new
        controller.send(signal.SIGTERM)
        trial.end(controller)
    trial.inspect()
    trial.expect(named or "setup_failed" in _outcomes(trial, before), f"the record names no cause: {new[-500:]}")
    return "a new agent; the run was repeated, and the log says why"


def agent_hung(trial: Trial) -> str:
    """SIGSTOP of the agent on a host: it answers nobody, and does not end."""
    with trial.controller() as controller:
        trial.let_run(controller, recorded=True)
        pid = _agent(trial, controller)
        before, said = len(rows(trial.campaign)), len(trial.log)
        os.kill(pid, signal.SIGSTOP)
        try:
            trial.wait_for_more_or_end(controller, before + 1)
            trial.note()
        finally:
            _continue(pid)
        controller.send(signal.SIGTERM)
        trial.end(controller)
    trial.inspect()
    new = trial.log[said:]
    trial.expect("did not" in new or "silent" in new, f"the record names no cause: {new[-500:]}")
    return "given up at its deadline, named; a new agent"


def _continue(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return


def host_gone(trial: Trial) -> str:
    """A host answers nobody any more: neither its agent nor SSH."""
    with trial.controller() as controller:
        trial.let_run(controller, recorded=True)
        trial.note()
        gone = trial.folder / "hosts" / trial.rng.choice(["left", "right"]) / "gone"
        gone.touch()
        for pid in _agents(controller):
            os.kill(pid, signal.SIGKILL)
        ended = trial.end(controller)
    trial.expect(ended.code == 3, f"exit {ended.code}: {ended.err[-300:]}")
    trial.expect(gone.parent.name in ended.err and "cannot be reached" in ended.err, f"no cause: {ended.err[-300:]}")
    said = trial.inspect()
    trial.expect(said.get("state") == "failed" and gone.parent.name in str(said.get("error")), f"status: {said}")
    gone.unlink()
    return "ended with exit 3, naming the host; resumed when it was back"


def _agents(controller: Controller) -> list[int]:
    return [pid for pid in marked(controller.mark) if b".cache/collie/agent" in _command_line(pid)]


def _agent(trial: Trial, controller: Controller) -> int:
    trial.wait_for(controller, lambda: len(_agents(controller)) == 2)
    return trial.rng.choice(_agents(controller))


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _outcomes(trial: Trial, since: int) -> set[str]:
    """Return what became of the runs after a certain one."""
    return {row[2] for number, row in rows(trial.campaign).items() if number > since}


# --- The room ---------------------------------------------------------------------------------------------------------

SIMULATED: Mapping[str, Fault] = {
    fault.__name__: fault
    for fault in (
        controller_killed,
        controller_stopped,
        controller_interrupted,
        controller_terminated,
        disk_full,
        file_too_large,
        store_read_only,
        clock_stepped,
        machine_rebooted,
        two_controllers,
        log_deleted,
        store_truncated,
        store_corrupted,
    )
}
"""On the simulator, where the campaign that was left alone says what the record has to be."""

PRETENDED: Mapping[str, Fault] = {fault.__name__: fault for fault in (agent_killed, agent_hung, host_gone)}
"""On hosts that are folders of this machine."""

ENDING = frozenset({"log_deleted", "store_truncated", "store_corrupted"})
"""After these a campaign has come to its end, one way or another."""
