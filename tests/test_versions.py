"""Which versions are supported: the script that tries them, its table, and systems that are not."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from types import ModuleType

import pytest

from tests.support.pages import ROOT, Page

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
NAMES = {
    "NVIDIA DALI": "nvidia-dali-cuda120",
    "OpenCV": "opencv-python-headless",
    "PyAV": "av",
    "huggingface hub": "huggingface-hub",
}
_EXTRAS = (
    "cuda12",
    "video",
    "hf",
    "arrow",
    "images",
    "heic",
)  # those whose packages the table names


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """tests/versions.py, as a module."""
    spec = importlib.util.spec_from_file_location("versions", ROOT / "tests" / "versions.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bounds() -> dict[str, str]:
    """The oldest version of each package, and of Python."""
    extras = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *(one for name in _EXTRAS for one in extras[name])]
    found = {
        line.partition(">=")[0]: re.split(r"[,;]", line.partition(">=")[2])[0] for line in lines
    }
    return found | {"Python": PROJECT["requires-python"].removeprefix(">=")}


def test_the_oldest_set_is_that_of_the_project(script: ModuleType) -> None:
    """Each package by its lower bound, and nothing without one; the newest set has no upper ones but ours."""
    oldest = script.requirements("oldest")

    assert {"torch==2.6.*", "numpy==1.26.*", "albumentations==2.0.7.*"} <= set(oldest)
    assert [line for line in oldest if "==" not in line] == list(script.TOOLS)
    assert "albumentations>=2.0.7,<=2.0.8" in script.requirements("newest")
    for name, oldest_version in bounds().items():
        if name not in ("Python", "huggingface-hub", "pillow-heif"):
            assert any(line.startswith(f"{name}=={oldest_version}.*") for line in oldest)


def test_a_mixed_set_pins_within_the_bounds(script: ModuleType) -> None:
    """Its pins come behind the bounds, and each package is one of the project's."""
    lines = script.requirements("middle")

    assert {"torch>=2.6", "torch==2.8.*"} <= set(lines)
    assert script.PINS["middle"].keys() <= bounds().keys()


def test_its_tests_are_there(script: ModuleType) -> None:
    """Paths below tests/."""
    assert [path for path in script.TESTS if not (ROOT / "tests" / path).exists()] == []


@pytest.mark.long
def test_an_outcome_is_told(script: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    """With these packages as they are: the code of pytest, and a line of the table."""
    code = script.run_tests(sys.executable, ["tests/test_groups.py", "-k", "belongs"])
    line = capfd.readouterr().out.splitlines()[-1]

    assert code == 0
    assert re.match(r"\| Python 3\.\d+\.\d+, torch \d.* \| \d{4}-\d\d-\d\d: 1 passed", line)
    assert script.run_tests(sys.executable, ["tests/test_groups.py", "-k", "none of them"]) != 0


def test_the_table_says_what_the_project_asks_for() -> None:
    """The column of the oldest versions."""
    rows = re.findall(
        r"^\| ([\w -]+) \| ([\d.]+) \| [\d.]+ \|", Page("docs/versions.md").text, re.M
    )
    told = {NAMES.get(name, name): oldest for name, oldest in rows}

    assert {
        "Python",
        "torch",
        "numpy",
        "nvidia-dali-cuda120",
        "pillow",
        "pillow-heif",
    } <= told.keys()
    assert told.items() <= bounds().items()


def test_windows_is_refused_at_once() -> None:
    """Before anything is imported that is not there."""
    code = "import sys; sys.platform = 'win32'; import readers"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.stderr.splitlines()[-1].startswith("ImportError: gpu-aug reads files as Linux")
