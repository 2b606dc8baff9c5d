"""The kernels in any order and in parallel, and on damaged codes, under the sanitizers of g++."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import cuda_jpeg_checks
from tests.support.cuda_jpeg_checks import environment

_ROOT = Path(__file__).resolve().parents[4]


def test_the_order_of_the_work_changes_no_bit() -> None:
    """Single intervals, images and views, in any order, in four threads."""
    cuda_jpeg_checks.race()


@pytest.mark.long
@pytest.mark.parametrize(
    ("program", "arguments", "last"),
    [
        ("fuzz", ("fuzz", "2000", "1"), "statuses"),
        ("fuzz", ("fuzz", "100000", "2"), "statuses"),
        ("race", ("race", "libtsan"), "24 images in any order"),
    ],
)
def test_sanitizers_find_nothing(program: str, arguments: tuple[str, ...], last: str) -> None:
    """No access beyond memory, no undefined behaviour, no data race."""
    command = [sys.executable, "-m", "tests.support.cuda_jpeg_checks", *arguments]
    found = subprocess.run(
        command,
        cwd=_ROOT,
        env={**os.environ, **environment(program)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr[-3000:]
    assert last in found.stdout


@pytest.mark.long
def test_sanitizers_find_what_is_wrong() -> None:
    """A section of memory that is a byte too short ends the program."""
    program = (
        "from tests.support import cuda_jpeg_checks as checks; import numpy as np; copy = checks._aligned_copy; "
        "checks._aligned_copy = lambda source: copy(source[:-1] if source.size % 4 else source); checks.fuzz(40, 0)"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        cwd=_ROOT,
        env={**os.environ, **environment("fuzz")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "heap-buffer-overflow" in found.stderr
