"""The result of a gate as JUnit XML, with one test case per compared workload."""

from __future__ import annotations

import os
import re
from pathlib import Path
from xml.dom.minidom import parseString

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite
from junitparser.junitparser import FinalResult

from collie.campaign.gate.summary import CaseResult, GateSummary
from collie.detect.compare import Change
from collie.errors import UsageError
from collie.files import FOR_OTHERS, open_output
from collie.report.terminal.gate import (
    GateContext,
    confidence,
    describe_effect,
    effort,
    lost_hosts,
    searched,
    unreached,
)

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(path: Path, summary: GateSummary, context: GateContext) -> None:
    """Write the result of a gate. Raises `UsageError` if the file cannot be written."""
    suite = _suite(context)
    suite.add_property("effort", effort(summary))
    for result in summary.results:
        suite.add_testcase(_case(result, context))
    for case in summary.untested:
        suite.add_testcase(_unreached(case.name, f"collie.gate.{case.kind}", unreached(summary)))
    if summary.search is None:
        suite.add_testcase(_unreached("search", "collie.gate", searched(summary)))
    if summary.lost:
        suite.add_testcase(_lost(summary, context))
    _write(path, suite)


def write_failed_junit(path: Path, context: GateContext, problem: str) -> None:
    """Write the result of a gate that could not measure. Raises `UsageError` if the file cannot be written."""
    suite, case = _suite(context), TestCase("testbed", "collie.gate")
    case.result = [Error(_clean(problem), "could not measure")]
    suite.add_testcase(case)
    _write(path, suite)


def _suite(context: GateContext) -> TestSuite:
    suite = TestSuite("collie.gate")
    suite.timestamp = context.started.removesuffix("Z")
    for name in ("baseline", "candidate", "campaign"):
        suite.add_property(name, _clean(getattr(context, name)))
    suite.add_property("under_test", ",".join(context.under_test))
    return suite


def _write(path: Path, suite: TestSuite) -> None:
    suite.update_statistics()
    document = JUnitXml("collie gate")
    document.append(suite)
    for name in ("tests", "failures", "errors", "time"):  # Jenkins' schema allows no `skipped` here
        setattr(document, name, getattr(suite, name))
    try:
        with os.fdopen(open_output(path, FOR_OTHERS), "wb") as file:
            file.write(parseString(document.tostring()).toprettyxml(encoding="utf-8"))  # noqa: S318 - text of this module
    except OSError as error:
        raise UsageError(f"--junit {path} cannot be written: {error.strerror}") from None


def _case(result: CaseResult, context: GateContext) -> TestCase:
    case = TestCase(_clean(result.case.name), f"collie.gate.{result.case.kind}", round(result.elapsed_seconds, 3))
    final = _final_result(result, context)
    if final is not None:
        case.result = [final]
    case.system_out = _clean("\n".join(_lines(result, context)))
    return case


def _unreached(name: str, classname: str, reason: str) -> TestCase:
    case = TestCase(_clean(name), classname, 0.0)
    case.result = [Skipped(_clean(reason), "not reached")]
    return case


def _lost(summary: GateSummary, context: GateContext) -> TestCase:
    case = TestCase("hosts", "collie.gate", 0.0)
    case.result = [_undecided(_clean(lost_hosts(summary)), "host lost", context)]
    return case


def _undecided(reason: str, kind: str, context: GateContext) -> FinalResult:
    return Error(reason, kind) if context.inconclusive_fails else Skipped(reason, kind)


def _final_result(result: CaseResult, context: GateContext) -> FinalResult | None:
    reason, kind = _clean(result.comparison.reason), result.change.value
    if result.change.is_alarm:
        failure = Failure(reason, kind)
        failure.text = _clean("\n".join(_lines(result, context)))
        return failure
    if result.change is Change.UNSUPPORTED:
        return Skipped(reason, kind)
    if result.change is Change.INCONCLUSIVE:
        return _undecided(reason, kind, context)
    return None


def _lines(result: CaseResult, context: GateContext) -> list[str]:
    lines = [f"{result.word}: {result.case.title}", result.comparison.reason]
    if effect := describe_effect(result.comparison.effect):
        lines.append(f"candidate against baseline: {effect}")
    if sure := confidence(result.comparison):
        lines.append(f"confidence: {sure}")
    return [*lines, f"reproduce: {context.reproduce(result)}"]


def _clean(text: str) -> str:
    return _NOT_IN_XML.sub("", text)
