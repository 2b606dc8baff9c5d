"""Environments of peers."""

import subprocess
from pathlib import Path

import pytest
import torch

from bench.baselines.peers import catalog

pytestmark = pytest.mark.long


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A requirements file without a line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "requirements.txt").write_text("")
    return tmp_path / "requirements.txt"


def test_an_environment_reuses_the_packages_of_this_one(packages: Path) -> None:
    """A new environment without packages of its own finds torch, and is ready."""
    folder = catalog.environment("spdl")

    reason = catalog.build(folder, packages)

    assert (reason, catalog.why_not("spdl")) == ("", "")
    found = subprocess.run(
        [catalog.python_of(folder), "-c", "import torch, sys; print(torch.__file__, sys.prefix)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert found == [torch.__file__, str(folder)]


def test_an_environment_alone_has_no_package_of_this_one(packages: Path) -> None:
    """A peer whose versions exclude ours does not find our torch."""
    folder = catalog.environment("lerobot")

    reason = catalog.build(folder, packages, alone=True)

    assert (reason, catalog.why_not("lerobot")) == ("", "")
    command = [catalog.python_of(folder), "-c", "import torch"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "No module named 'torch'" in found.stderr


def test_an_environment_that_fails_keeps_the_reason(packages: Path) -> None:
    """What pip said stands in the row of a peer that cannot be installed."""
    packages.write_text("./no-such-folder\n")

    reason = catalog.build(catalog.environment("spdl"), packages)

    assert "no-such-folder" in reason
    assert catalog.why_not("spdl") == f"cannot be installed: {reason}"
