"""Baselines of gates."""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from collie.app.adapters import Adapters
from collie.app.inputs import PAPER
from collie.app.testbeds import lacks_subsystem, open_testbed
from collie.campaign.choice import GATE, SearchChoice, TestbedChoice
from collie.campaign.gate.cases import CaseOrigin, GateCase, Record, case_of
from collie.campaign.progress import Answer, ProcessState
from collie.detect.bounds import Calibration
from collie.detect.symptom import Symptom
from collie.errors import StoreError, UsageError
from collie.inventory.fingerprint import Fingerprint, HostDifference, compare
from collie.inventory.under_test import ALIASES, EVERYTHING, beyond, known_words
from collie.ports import CAMPAIGN_FILE, Testbed
from collie.search.anomaly import Anomaly
from collie.suggest import did_you_mean

logger = logging.getLogger(__name__)

_FAILED = 1
"""Exit code of a gate that found something new or worse."""
_OF_A_SEARCH = re.compile(r"a\d+")


@dataclass(frozen=True)
class Baseline:
    """A campaign that a gate compares with. `choice` has the options with which the campaign began."""

    path: Path
    choice: SearchChoice
    anomalies: tuple[Anomaly, ...]
    record: Record
    calibration: Calibration
    fingerprints: Mapping[str, Fingerprint]

    def fingerprints_of(self, hosts: Collection[str]) -> Mapping[str, Fingerprint]:
        """Return the fingerprints of some hosts. A search can have several pairs, a gate has one."""
        known = all(host in self.fingerprints for host in hosts)
        return {host: self.fingerprints[host] for host in hosts} if known else self.fingerprints


def read_baseline(adapters: Adapters, name: str, *, accept_failed: bool = False) -> Baseline:
    """Read a campaign as a baseline, from its directory or its file `campaign.sqlite`.

    A gate that failed is refused unless `accept_failed`: what it found new or worse would be part of the baseline, and
    so pass in every later gate as still there.

    Raises:
        UsageError: the campaign is a gate that failed.
    """
    path = Path(name)
    directory = path.parent if path.name == CAMPAIGN_FILE else path
    with adapters.records.read(directory) as store:
        last = adapters.records.heartbeat(directory)
        if last is not None and last.state is ProcessState.RUNNING:
            logger.warning("%s has not ended; the gate compares with what is on record so far", directory)
        if GATE in store.header.settings:
            _examine_gate(directory, last.answer if last else None, accept_failed=accept_failed)
        kept = adapters.records.fingerprints(directory)
        if not kept:
            raise StoreError(
                f"{directory} kept no fingerprints, so nobody can say whether it may be compared with; begin a new one"
            )
        return Baseline(
            directory,
            SearchChoice.from_settings(store.header.settings),
            store.anomalies(),
            Record(store.runs(with_series=False)),
            store.calibration(),
            kept,
        )


def _examine_gate(directory: Path, answer: Answer | None, *, accept_failed: bool) -> None:
    if answer is not None and answer.exit_code != _FAILED:
        return
    if answer is not None and not accept_failed:
        raise UsageError(
            f"{directory} is a gate that {answer.words}; as a baseline it would let these pass as still there. Name "
            "the baseline that it compared with, or accept them with --accept-failed-baseline"
        )
    told = answer.words if answer else "gave no answer"
    logger.warning("%s is itself a gate that %s: what it found worse is part of this baseline", directory, told)


def cases_of(adapters: Adapters, baseline: Baseline) -> tuple[GateCase, ...]:
    """Return the cases of a gate: the known anomalies, then the baseline's."""
    cases = [
        GateCase(
            name=reference.id,
            kind=CaseOrigin.KNOWN,
            title=reference.title,
            workload=reference.trigger,
            mfs=reference.conditions,
            anomaly=reference.id,
            symptom=Symptom(reference.symptom),
        )
        for reference in adapters.content.references(PAPER)
    ]
    published = {case.name for case in cases}
    own = [anomaly for anomaly in baseline.anomalies if anomaly.same_as is None and anomaly.id not in published]
    replayed = {anomaly.id for anomaly in own if not _OF_A_SEARCH.fullmatch(anomaly.id)}
    for anomaly in own:
        name = _name_of(anomaly, baseline, replayed)
        cases.append(case_of(anomaly, CaseOrigin.BASELINE, name, f"{baseline.path}/{anomaly.id}"))
    return tuple(cases)


def _name_of(anomaly: Anomaly, baseline: Baseline, replayed: Collection[str]) -> str:
    name = anomaly.id
    # The baseline can itself be a gate, and the baseline of that gate can have had the same name.
    while _OF_A_SEARCH.fullmatch(name) or (name != anomaly.id and name in replayed):
        name = f"{baseline.path.resolve().name}-{name}"
    return name


def with_moved_subsystem(adapters: Adapters, baseline: Baseline, candidate: TestbedChoice) -> Baseline:
    """Return a baseline on the candidate's subsystem file if its own file has moved. Otherwise return it unchanged.

    Raises:
        UsageError: the candidate's file is another subsystem, so it is not the moved file.
    """
    before = baseline.choice.testbed
    if not (candidate.is_simulated and lacks_subsystem(before)):
        return baseline
    moved = dataclasses.replace(before, subsystem=candidate.subsystem)
    with closing(open_testbed(adapters, moved, 0)) as testbed:
        _refuse(
            f"{before.subsystem}: no such file; the baseline was measured on it, and {moved.subsystem} differs from it",
            compare(baseline.fingerprints, testbed.info.fingerprints),
            remedy="Put the file back, or give its new path with --subsystem FILE",
        )
    return dataclasses.replace(baseline, choice=dataclasses.replace(baseline.choice, testbed=moved))


def testbed_of(baseline: Baseline, candidate: TestbedChoice, hosts: str | None) -> TestbedChoice | None:
    """Return the testbed for another measurement of a baseline: a simulator, the given hosts, or None."""
    before = baseline.choice.testbed
    if before.is_simulated != candidate.is_simulated:
        kinds = ("a simulated subsystem", "real hosts")
        raise UsageError(
            f"the baseline was measured on {kinds[not before.is_simulated]} and the candidate is "
            f"{kinds[not candidate.is_simulated]}; choose the candidate by --hosts or --subsystem"
        )
    if before.is_simulated:
        if hosts:
            raise UsageError("--baseline-hosts is for real hosts; a simulated baseline is measured anew by itself")
        return before
    if hosts is None:
        return None
    return dataclasses.replace(candidate, hosts=hosts)


def require_alike(
    adapters: Adapters,
    baseline: Baseline,
    testbed: Testbed | None,
    chosen: TestbedChoice,
    candidate: Testbed,
    under_test: Sequence[str],
) -> None:
    """Refuse to compare hosts that differ in a field that is not under test.

    The fingerprint of a simulated subsystem holds its settings and a digest of all quantities. Settings change the
    digest. A different digest is accepted if the candidate with the baseline's settings equals the baseline.
    """
    _refuse_unknown(under_test, (*baseline.fingerprints.values(), *candidate.info.fingerprints.values()))
    before = baseline.choice.testbed
    is_one_file = before.is_simulated and before.subsystem == chosen.subsystem
    follows: tuple[str, ...] = ()
    if testbed is not None:
        # Whatever is under test: a file that was edited would be compared with itself.
        remedy = (
            f"Both sides would be what {chosen.subsystem} is now. Put it back as it was, and describe the changed NIC "
            "in a file of its own (--subsystem FILE), or begin with a new search as the baseline"
            if is_one_file
            else f"Put it back as it was, or take it as it is now: --under-test {EVERYTHING}"
        )
        _refuse(
            f"the baseline is not what it was when {baseline.path} measured it",
            compare(baseline.fingerprints_of(testbed.info.fingerprints), testbed.info.fingerprints),
            under_test if EVERYTHING in under_test and not is_one_file else (),
            remedy=remedy,
        )
    if is_one_file:  # another subsystem may not know these settings
        set_back = dataclasses.replace(chosen, settings=before.settings, noise=before.noise, hardships=before.hardships)
        with closing(open_testbed(adapters, set_back, 0)) as unchanged:
            found = compare(baseline.fingerprints, unchanged.info.fingerprints)
        follows = () if any(host.changes_results for host in found) else ("subsystem.hardware",)
    _refuse(
        "baseline and candidate differ in more than what is under test",
        compare(baseline.fingerprints_of(candidate.info.fingerprints), candidate.info.fingerprints),
        under_test,
        follows,
    )


def _refuse_unknown(under_test: Sequence[str], fingerprints: Iterable[Fingerprint]) -> None:
    known = known_words(field for fingerprint in fingerprints for field in fingerprint.fields)
    for word in under_test:
        if word not in known:
            hint = did_you_mean(word, sorted(known)) or f"; write {', '.join(ALIASES)} or {EVERYTHING}"
            raise UsageError(f"--under-test {word}: these hosts have no such field{hint}")


def _refuse(
    what: str,
    found: Iterable[HostDifference],
    under_test: Sequence[str] = (),
    follows: Sequence[str] = (),
    remedy: str | None = None,
) -> None:
    unlike = [(host, each) for host in found for each in beyond(host.differences, (*under_test, *follows))]
    if unlike:
        fields = ",".join(dict.fromkeys(each.field for _, each in unlike))
        differences = "\n  ".join(f"{host.b}: {each}" for host, each in unlike)
        widened = ",".join((*dict.fromkeys(under_test), fields))
        remedy = remedy or f"Make them alike, or say that this is under test as well: --under-test {widened}"
        raise UsageError(f"{what} (then and now):\n  {differences}\n{remedy}")
