"""A bundle as its receiver runs it: a Python without any library, over the ssh program, to agents that pretend."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collie.app.cases import case_named
from collie.app.exports import bundle_of
from collie.bundle import archive
from collie.bundle.catalogs import Catalogs
from collie.bundle.modules import imports
from collie.content.catalogs import load_catalog
from collie.inventory.fingerprint import Fingerprint
from collie.inventory.hosts import Host
from collie.testing.fake_agent import fake_agent_program
from collie.wiring import ADAPTERS

FOUND_ON = {name: Fingerprint({"nic": {"firmware": "0.9"}, "link": {"netdev": "eth1"}}) for name in ("left", "right")}


@pytest.fixture(scope="module")
def built() -> bytes:
    content = replace(bundle_of(ADAPTERS, case_named(ADAPTERS, "nsdi22-04")), fingerprints=FOUND_ON)
    return archive.build(content, Catalogs([load_catalog("rxe")]), fake_agent_program())


@pytest.fixture
def bundle(tmp_path: Path, built: bytes) -> Path:
    path = tmp_path / "a.pyz"
    path.write_bytes(built)
    return path


@pytest.fixture
def hosts(ssh_host: Host, tmp_path: Path) -> Path:
    """Both hosts are the one server; they differ in their names alone."""
    file = tmp_path / "hosts.json"
    fields = ("address", "port", "user", "identity_file", "host_key", "device")
    common = {name: getattr(ssh_host, name) for name in fields} | {"gid_index": 3, "python": sys.executable}
    named = {name: {**common, "data_address": f"192.0.2.{n}"} for n, name in enumerate(FOUND_ON, start=1)}
    file.write_text(json.dumps({"version": 1, "hosts": named}))
    return file


def behave(host: Path, **behaviour: Any) -> None:
    (host / "home" / "behaviour.json").write_text(json.dumps(behaviour))


def run(bundle: Path, *words: str) -> subprocess.CompletedProcess[str]:
    # -I and -S: neither Collie nor any other package can be found.
    argv = [sys.executable, "-I", "-S", str(bundle), *words]
    environment = {name: os.environ[name] for name in ("PATH", "HOME")}
    return subprocess.run(
        argv, cwd=bundle.parent, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_it_reaches_its_hosts_judges_as_collie_does_and_says_what_differs(
    bundle: Path, hosts: Path, tmp_path: Path
) -> None:
    # What no device can run takes no time to measure, and is a verdict all the same.
    behave(tmp_path, fail={"prepare": {"kind": "unsupported", "step": "prepare", "message": "no such opcode"}})
    done = run(bundle, "--hosts", str(hosts), "--repeat", "2", "--format", "json")
    assert done.returncode == 4, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["schema_version"], answer["anomaly"], answer["reproduced"]) == (1, "nsdi22-04", "inconclusive")
    reasons = [verdict["reason"] for verdict in answer["verdicts"]]
    assert len(reasons) == 2
    assert all(reason.startswith("unsupported: ") and "no such opcode" in reason for reason in reasons)
    differing = {
        each["field"]: each["values"] for host in answer["fingerprint_difference"] for each in host["differences"]
    }
    assert differing["nic.firmware"] == ["0.9", "1.0"]
    assert answer["safety"]["queue_pairs_left"] == {"left": 0, "right": 0}
    text = run(bundle, "--hosts", str(hosts), "--repeat", "1").stdout
    assert text.startswith("reproduced: inconclusive\nnsdi22-04: pause in 0 of 1 run, normal in 0, inconclusive in 1\n")
    assert "nic.firmware: 0.9 and 1.0" in text


def test_its_modules_import_only_each_other_and_the_standard_library(bundle: Path) -> None:
    with zipfile.ZipFile(bundle) as packed:
        sources = {name: packed.read(name) for name in packed.namelist() if name.endswith(".py")}
    names = {path: path.removesuffix(".py").replace("/", ".").removesuffix(".__init__") for path in sources}
    # Also the imports of functions, which run late.
    imported = {module for path, source in sources.items() for module, _name in imports(source, names[path])}
    assert {module.partition(".")[0] for module in imported} <= sys.stdlib_module_names | {"collie"}
    assert "collie.detect.interval" in names.values()
    all_of_them = [name for name in names.values() if name.startswith("collie") and name != "collie.agent.__main__"]
    script = (
        f"import importlib, sys; sys.path[:0] = [{str(bundle)!r}]; [importlib.import_module(n) for n in {all_of_them}]"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", script], cwd=bundle.parent, timeout=120, check=True)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_reader_that_leaves_does_not_change_the_answer(
    stream: str, bundle: Path, hosts: Path, tmp_path: Path
) -> None:
    behave(tmp_path, fail={"prepare": {"kind": "unsupported", "step": "prepare", "message": "no such opcode"}})
    read, write = os.pipe()
    os.close(read)
    others = {name: subprocess.DEVNULL for name in ("stdout", "stderr") if name != stream}
    argv = [sys.executable, "-I", "-S", str(bundle), "--hosts", str(hosts), "--repeat", "2"]
    done = subprocess.run(argv, cwd=bundle.parent, timeout=120, check=False, **{stream: write}, **others)  # type: ignore[call-overload]
    os.close(write)
    assert done.returncode == 4


def test_a_host_with_an_unknown_key_is_refused(bundle: Path, hosts: Path) -> None:
    named = json.loads(hosts.read_text())
    for host in named["hosts"].values():
        del host["host_key"]
    hosts.write_text(json.dumps(named))
    done = run(bundle, "--hosts", str(hosts))
    assert (done.returncode, done.stdout) == (3, "")
    assert "ssh rejects the host key of the host" in done.stderr


def test_it_explains_itself_and_what_is_wrong_with_its_arguments(bundle: Path) -> None:
    about = run(bundle, "--about")
    assert about.returncode == 0
    assert "which\n--controls tests again:\n    direction == bidirectional\n" in about.stdout
    for words, said in (((), "--hosts"), (("--hosts", "one", "two"), "is no host"), (("--repeat", "0"), "no number")):
        done = run(bundle, *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
        assert "Traceback" not in done.stderr
