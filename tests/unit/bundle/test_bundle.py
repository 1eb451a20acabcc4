"""What a bundle holds, what it needs, and that reading one from a stranger is safe."""

from __future__ import annotations

import ast
import io
import json
import os
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from collie.agent.build import build as build_agent
from collie.app.cases import case_named
from collie.app.exports import bundle_of
from collie.bundle import archive
from collie.bundle.about import about
from collie.bundle.catalogs import Catalogs
from collie.bundle.content import decode, encode
from collie.bundle.hosts import pair_of
from collie.bundle.modules import imports
from collie.campaign.reproduce import Bundle, CountersAtDiscovery
from collie.content.catalogs import load_catalogs
from collie.content.inventory import load_inventory
from collie.detect.signature import Levels, Signature
from collie.detect.symptom import Symptom
from collie.errors import CollieError, ContentError, InventoryError, UsageError
from collie.inventory.fingerprint import Fingerprint
from collie.search.anomaly import Claim
from collie.wiring import ADAPTERS
from collie.workloads.feature import Mfs
from collie.workloads.setup import SetUp
from collie.workloads.workload import QpType, Workload
from tests.support.strict_json import through_json

AT_DISCOVERY = CountersAtDiscovery(
    Signature((("misses", 3.25), ("stalls", 1.5))), Levels({"misses": 0.125, "stalls": 1e-4}, ("rx_packets",))
)
FINGERPRINTS = {"a": Fingerprint({"nic": {"firmware": "1.0", "psid": None}, "cpu": {"cores": 4, "flags": ["x", "y"]}})}


@cache
def bundle(name: str = "nsdi22-04") -> Bundle:
    return bundle_of(ADAPTERS, case_named(ADAPTERS, name))


@pytest.mark.parametrize("number", range(1, 19))
def test_every_anomaly_of_the_paper_can_be_exported_and_read_again(number: int) -> None:
    one = bundle(f"nsdi22-{number:02}")
    assert decode(through_json(encode(one))) == one
    assert one.plan.controls
    text = about(one, "file.pyz")
    assert all(str(condition) in text for condition in one.mfs.conditions)
    assert "--controls" in text
    assert "--controls" not in about(replace(one, mfs=Mfs(())), "file.pyz")


def test_what_it_showed_and_was_found_on_comes_back() -> None:
    one = replace(bundle(), at_discovery=AT_DISCOVERY, fingerprints=FINGERPRINTS, verify=True)
    assert decode(through_json(encode(one))) == one


def after(*before: Workload) -> Bundle:
    """Return a bundle of an anomaly that needs a large set-up, and these phases on it."""
    one = bundle()
    made_for = one.plan.anomaly.with_(qps=2 * one.plan.anomaly.qps)
    return replace(one, plan=replace(one.plan, on=SetUp(made_for, before)))


def test_the_phases_that_it_needs_come_back_and_are_named() -> None:
    large = after().plan.on
    assert large is not None
    one = after(large.made_for)
    assert decode(through_json(encode(one))) == one
    more = f"qps {large.made_for.qps}"
    assert f"    1. {more}\n" in about(one, "file.pyz")
    assert decode(through_json(encode(after()))) == after()
    said = " ".join(about(after(), "file.pyz").split())
    assert f"for traffic with {more}." in said
    assert "phases first" not in said


@pytest.mark.parametrize(("load", "said"), [(0, "with full send queues"), (10**9, "at 1 Gbit/s")])
def test_the_victim_that_it_holds_up_comes_back_and_is_named(load: int, said: str) -> None:
    one = replace(bundle(), victim=True, victim_bps=load)
    assert decode(through_json(encode(one))) == one
    assert f"runs beside each workload, {said}:" in " ".join(about(one, "file.pyz").split())
    assert "victim" not in about(bundle(), "file.pyz")


@pytest.mark.parametrize("victim", [None, {}, {"offered_bps": -1}, {"offered_bps": 1 << 63}, {"offered_bps": "1"}, 7])
def test_a_victim_without_a_load_is_refused(victim: Any) -> None:
    with pytest.raises(ValueError, match=r"victim|offered_bps|wrong kind|whole number"):
        decode({**encode(bundle()), "victim": victim})


def test_what_a_victim_showed_is_not_tried_without_one() -> None:
    old = encode(replace(bundle(), symptom=Symptom.VICTIM_LOSS))
    with pytest.raises(ValueError, match="export it again"):
        decode(old)


def test_a_workload_that_has_no_victim_promises_none() -> None:
    uncounted = Workload(qp_type=QpType.UC)
    one = bundle()
    plan, siblings = replace(one.plan, anomaly=uncounted), {**one.siblings, uncounted: uncounted}
    assert "victim" not in about(replace(one, victim=True, plan=plan, siblings=siblings), "file.pyz")


def test_plain_traffic_that_is_anomalous_is_named_as_that() -> None:
    said, plain = about(bundle(), "file.pyz"), Workload()
    assert "The workload, where it is not its plain sibling:\n" in said
    assert "plain traffic" not in said
    one = bundle()
    own = replace(one, plan=replace(one.plan, anomaly=plain), siblings={**one.siblings, plain: plain})
    said = about(own, "file.pyz")
    assert "The workload, which is plain traffic itself:\n" in said
    assert "Of the anomaly itself no healthy sibling exists, because it is plain traffic." in " ".join(said.split())


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (Claim(), "As far as tested, it shows while all of this holds, and goes when any one of it is broken, which"),
        (Claim(fresh_runs=9, fresh_shows=8), "it shows while all of this holds (in 8 of 9 fresh runs), and goes when"),
        (
            Claim(complete=False),
            "So far these conditions are known, not explained to the end: some may be missing or too",
        ),
        (Claim(complete=False, fresh_runs=1), "or too narrow; it shows in 0 of 1 fresh run inside them:"),
    ],
)
def test_a_set_is_claimed_as_far_as_it_was_tested(claim: Claim, said: str) -> None:
    one = decode(through_json(encode(replace(bundle(), claim=claim))))
    assert one.claim == claim
    assert said in " ".join(about(one, "file.pyz").split())


def test_a_bundle_of_an_earlier_collie_has_no_figures_of_fresh_runs() -> None:
    old = encode(bundle())
    del old["claim"]
    assert decode(through_json(old)) == bundle()


def test_only_a_bundle_with_phases_or_a_victim_is_too_new_for_an_earlier_collie() -> None:
    versions = [encode(each)["bundle_version"] for each in (bundle(), after(), replace(after(), victim=True))]
    assert versions == [1, 2, 3]
    assert {"set_up", "victim"}.isdisjoint(encode(bundle()))


def test_the_catalogs_come_back() -> None:
    known = load_catalogs()
    read = Catalogs.decode(through_json(Catalogs(known).encode()))
    assert [read.find(catalog.driver) for catalog in known] == known
    assert read.find("mlx5_core") is read.find("mlx5")
    assert read.find("nobodys") is None


def test_it_needs_nothing_but_itself_and_the_standard_library() -> None:
    with zipfile.ZipFile(io.BytesIO(archive.build(bundle(), Catalogs(()), b"agent"))) as file:
        members = {name: file.read(name) for name in file.namelist()}
    modules = {name.removesuffix(".py").replace("/", ".").removesuffix(".__init__") for name in members}
    missing = {
        module
        for name, source in members.items()
        if name.endswith(".py")
        for module, _ in imports(source, name.removesuffix(".py").replace("/", "."))
        if module.partition(".")[0] not in sys.stdlib_module_names and module not in modules
    }
    assert missing == set()
    assert not any(
        name.startswith(("collie/cli", "collie/app", "collie/wiring", "collie/simulator")) for name in members
    )


# --- Read as data ----------------------------------------------------------------------------------------------------


def written(path: Path, content: bytes | None, **others: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in others.items():
            file.writestr(name.replace("__up__", "../../"), text)
        if content is not None:
            file.writestr(archive.CONTENT, content)
    return path


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    raw = through_json(encode(bundle()))
    change(raw)
    return json.dumps(raw).encode()


def test_a_bundle_is_read_and_nothing_of_it_is_run_or_unpacked(tmp_path: Path) -> None:
    trap = "raise SystemExit('run')"
    folder = tmp_path / "inner" / "folder"
    folder.mkdir(parents=True)
    path = written(folder / "a.pyz", changed(lambda raw: None), __up__evil=trap, **{"__main__.py": trap})
    assert archive.read(path).mfs == bundle().mfs
    assert [each.name for each in tmp_path.rglob("*") if each.is_file()] == ["a.pyz"]
    named = case_named(ADAPTERS, str(path))
    assert (named.case.workload, named.case.mfs) == (bundle().plan.anomaly, bundle().mfs)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "is no bundle of Collie"),
        (b"x" * (archive.MAX_CONTENT_BYTES + 1), "longer than 4 MiB"),
        (b"[" * 100_000, "is wrong"),
        (b"\xff\xfe\x00", "is wrong"),
        (b"[]", "something is missing"),
        (b'{"bundle_version": 4}', "its version is 4"),
        (b'{"bundle_version": NaN}', "NaN is no number"),
        (changed(lambda raw: raw.pop("thresholds")), "something is missing"),
        (changed(lambda raw: raw["anomaly"]["workload"].update(qps=10**9)), "memory regions"),
        (changed(lambda raw: raw["anomaly"]["workload"].update(qp_type="ABC")), "ABC"),
        (changed(lambda raw: raw["controls"][0]["plain_sibling"].update(opcode="SEND", qp_type=7)), "7"),
        (changed(lambda raw: raw["features"][0].update(value="unidirectional")), "does not satisfy its own conditions"),
        (changed(lambda raw: raw["features"][0].update(dimension="__class__")), "is no feature"),
        (changed(lambda raw: raw["features"][3].update(value="32")), "cannot be compared"),
        (changed(lambda raw: raw.update(symptom="headache")), "headache"),
        (changed(lambda raw: raw.update(sentence="good\x1b]0;owned\x07")), "steer a terminal"),
        (changed(lambda raw: raw.update(fingerprints={"a\r": {}})), "steer a terminal"),
        (changed(lambda raw: raw.update(name=7)), "7 is not text"),
        (changed(lambda raw: raw["thresholds"].update(pause_ratio="0")), "pause_ratio: '0' is not a number"),
        (changed(lambda raw: raw["thresholds"].update(evil=1)), "'evil' is unknown here"),
        (changed(lambda raw: raw["thresholds"].update(pause_ratio=10**400)), "is not a number"),
        (changed(lambda raw: raw.update(sentence="\ud800")), "steer a terminal"),
        (changed(lambda raw: raw["anomaly"]["workload"].update(sge_count=10**12)), "too large"),
        (changed(lambda raw: raw.update(set_up={"made_for": raw["anomaly"]["workload"]})), "something is missing"),
        (
            changed(lambda raw: raw.update(set_up={"made_for": raw["anomaly"]["plain_sibling"], "before": []})),
            "does not fit its set-up",
        ),
        (changed(lambda raw: raw.update(fingerprints={"a": {"nic": 7}})), "is not keys and values"),
    ],
)
def test_a_bundle_that_is_wrong_is_refused_in_words(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = written(tmp_path / "a.pyz", content)
    with pytest.raises(ContentError, match=said) as caught:
        archive.read(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_no_archive_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "text.pyz").write_text("#!/bin/sh\nreboot\n")
    (tmp_path / "cut.pyz").write_bytes(archive.build(bundle(), Catalogs(()), b"agent")[:-40])
    for name in ("text", "cut", "absent"):
        with pytest.raises(ContentError, match=f"{name}.pyz"):
            archive.read(tmp_path / f"{name}.pyz")


def test_a_file_beyond_its_bound_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.pyz"
    path.write_bytes(archive.build(bundle(), Catalogs(()), b"agent"))
    os.truncate(path, archive.MAX_FILE_BYTES)
    with pytest.raises(ContentError, match="is no bundle, or a damaged one"):
        archive.read(path)
    os.truncate(path, archive.MAX_FILE_BYTES + 1)
    with pytest.raises(ContentError, match="it is larger than 8 MiB"):
        archive.read(path)


def test_a_bundle_that_leads_to_a_device_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.pyz").symlink_to("/dev/zero")
    with pytest.raises(ContentError, match="it is a device, not a regular file"):
        archive.read(tmp_path / "a.pyz")


def test_a_damaged_file_is_refused_in_words_or_read_as_it_was(tmp_path: Path) -> None:
    path = written(tmp_path / "a.pyz", changed(lambda raw: None))
    whole, rng = path.read_bytes(), Random(1)
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(rng.randint(1, 8)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(bytes(damaged))
        try:
            assert archive.read(path) == bundle()
        except ContentError:
            refused += 1
    assert refused > 250


def test_a_bundle_listens_on_nothing_and_its_agent_for_rdma_cm_alone() -> None:
    """No stranger can speak to a bundle: it talks to its hosts over the ssh program, and opens no port."""
    opening = {"listen", "bind", "create_server", "start_server", "serve_forever", "socketserver", "http"}
    listeners = set()
    with zipfile.ZipFile(io.BytesIO(archive.build(bundle(), Catalogs(()), build_agent()))) as file:
        programs = {name: file.read(name) for name in file.namelist() if name.endswith(".py")}
        with zipfile.ZipFile(io.BytesIO(file.read(archive.AGENT))) as inner:
            programs |= {f"agent:{name}": inner.read(name) for name in inner.namelist() if name.endswith(".py")}
    for name, source in programs.items():
        for node in ast.walk(ast.parse(source)):
            word = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
            if word in opening:
                listeners.add(name)
    assert listeners == {"agent:collie/agent/resources.py"}  # `connection: rdma_cm`, on the data address alone
    assert len(programs) > 60


# --- Hosts -----------------------------------------------------------------------------------------------------------


def test_hosts_are_named_in_words() -> None:
    pair = pair_of(
        ["root@10.0.0.1:2222,mlx5_0,192.168.77.1,gid_index=3,python=/opt/python3.9", "[fe80::2]:22,bnxt_re1,fd00::2"]
    )
    a, b = pair.hosts
    assert (a.user, a.address, a.port, a.device, a.data_address) == ("root", "10.0.0.1", 2222, "mlx5_0", "192.168.77.1")
    assert (a.gid_index, a.python, a.ib_port) == (3, "/opt/python3.9", 1)
    assert (b.user, b.address, b.port, b.data_address) == (None, "fe80::2", 22, "fd00::2")
    assert a.name != b.name


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["one,mlx5_0,10.0.0.1"], "these are 1"),
        (["one", "two"], "write .*HOST"),
        (["one,mlx5_0,here", "two,mlx5_0,10.0.0.2"], "'here' is no IP address"),
        (["-oProxyCommand=reboot,mlx5_0,10.0.0.1", "two,mlx5_0,10.0.0.2"], "neither a host name nor an IP address"),
        (["one,mlx5_0;reboot,10.0.0.1", "two,mlx5_0,10.0.0.2"], "no RDMA device"),
        (["$(id)@one,mlx5_0,10.0.0.1", "two,mlx5_0,10.0.0.2"], "no user"),
        (["one:99999,mlx5_0,10.0.0.1", "two,mlx5_0,10.0.0.2"], "no whole number from 1 to 65535"),
        (["one,mlx5_0,10.0.0.1,evil=1", "two,mlx5_0,10.0.0.2"], "'evil' is no field"),
        (["one,mlx5_0,10.0.0.1", "one,mlx5_0,10.0.0.2"], "same name"),
        (["one,mlx5_0,10.0.0.1", "two,mlx5_0,10.0.0.1"], "same data_address"),
        (["10.0.0.1,mlx5_0,10.0.0.1", "two,mlx5_0,10.0.0.2"], "SSH would share the port under test"),
    ],
)
def test_a_word_that_names_no_host_is_refused(words: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        pair_of(words)


def test_a_hosts_file_in_json_is_one_that_collie_reads_too(tmp_path: Path) -> None:
    file = tmp_path / "hosts.json"
    hosts = {
        name: {"address": f"10.0.0.{number}", "port": 22, "device": "mlx5_0", "data_address": f"192.168.77.{number}"}
        for number, name in enumerate(("alice", "bob"), start=1)
    }
    file.write_text(json.dumps({"version": 1, "hosts": hosts, "pairs": [["bob", "alice"]]}))
    assert pair_of([str(file)]) == load_inventory(file).pairs[0]


def test_two_devices_of_one_host_are_two_parties_in_words_and_in_a_file(tmp_path: Path) -> None:
    pair = pair_of(["root@one:22,mlx5_0,192.168.77.1", "root@one:22,mlx5_1,192.168.77.2"])
    assert pair.name == "one:22/mlx5_0,one:22/mlx5_1"
    assert list(pair.shared_hosts) == ["one:22"]
    file = tmp_path / "hosts.json"
    devices = {"mlx5_0": "192.168.77.1", "other": {"device": "mlx5_1", "data_address": "192.168.77.2", "gid_index": 3}}
    file.write_text(json.dumps({"version": 1, "hosts": {"one": {"address": "10.0.0.1", "devices": devices}}}))
    assert pair_of([str(file)]) == load_inventory(file).pairs[0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"hosts": {}, "safety": {}}',
        '{"hosts": {"a": {"devices": 1}}}',
        '{"hosts": {"a": {"address": "h", "devices": {"d": [], "e/f": "10.0.0.1"}}}}',
        '{"hosts": {"a": {}}}',
        '{"hosts": {"a": {"user": 1}}}',
        "[" * 99999,
    ],
)
def test_a_hosts_file_that_is_wrong_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "hosts.json"
    file.write_text(text)
    with pytest.raises((InventoryError, UsageError)) as caught:
        pair_of([str(file)])
    assert isinstance(caught.value, CollieError)
    assert str(file) in str(caught.value)
