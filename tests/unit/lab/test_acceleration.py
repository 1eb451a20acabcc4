"""The choice between KVM and emulation."""

from __future__ import annotations

from pathlib import Path

import pytest

from collie.lab import acceleration


@pytest.fixture
def usable_kvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A KVM device that opens, and a QEMU that tells its version."""
    device = tmp_path / "kvm"
    device.touch()
    monkeypatch.setattr(acceleration, "KVM_DEVICE", device)
    monkeypatch.setattr(acceleration, "QEMU", "true")


def test_without_a_kvm_device_the_processor_is_emulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceleration, "KVM_DEVICE", tmp_path / "none")
    assert acceleration.remembered(tmp_path, "image") == "tcg"


@pytest.mark.usefixtures("usable_kvm")
def test_the_accelerator_that_worked_is_remembered_for_its_image(tmp_path: Path) -> None:
    assert acceleration.remembered(tmp_path, "one") is None
    acceleration.remember(tmp_path, "one", "tcg")
    assert acceleration.remembered(tmp_path, "one") == "tcg"
    assert acceleration.remembered(tmp_path, "two") is None
    acceleration.remember(tmp_path, "two", "kvm")
    assert acceleration.remembered(tmp_path, "one") == "tcg"


@pytest.mark.usefixtures("usable_kvm")
@pytest.mark.parametrize("text", ["", "[]", '{"accelerator": "tcg"}'])
def test_a_damaged_memory_is_no_memory(tmp_path: Path, text: str) -> None:
    (tmp_path / "one.accelerator.json").write_text(text)
    assert acceleration.remembered(tmp_path, "one") is None
