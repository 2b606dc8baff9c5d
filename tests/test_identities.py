"""What is stored outside a process: the same values for ever, whatever is renamed, moved or run by another Python.

What changes one of them lets no stored run go on: it is in DECISIONS.md, "Identities of stored data", and an
earlier state is refused.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import gpu_aug.ops.foreign.source
from readers import open_dataset
from readers.detect.registry import FORMATS
from tests.support.identities import ARGUMENTS, FOLDER, SOURCES, identities

GOLDEN: dict[str, dict[str, str]] = json.loads((FOLDER / "golden.json").read_text("utf-8"))
OF_LIBRARIES = {
    "module of Kornia",
    "torchvision",
    "Albumentations",
}  # as their versions describe them
DESCRIBE = """
import importlib.util, json, sys

def load(path):
    spec = importlib.util.spec_from_file_location("loaded", path)
    sys.modules["loaded"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

describe, made = load(sys.argv[1]).describe_source, load(sys.argv[2])
known = {name: step for name, step in made.steps().items() if hasattr(step, "__code__")}
found = {name: describe(step) for name, step in (known | {"class": made.Adder}).items()}
print(json.dumps({name: one["source"] for name, one in found.items()}))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """All identities of this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPU_AUG_CACHE", str(tmp_path_factory.mktemp("cache")))
        return identities(tmp_path_factory.mktemp("identities"))


@pytest.mark.parametrize("kind", ["data", "clips", "recipes", "defaults", "steps"])
def test_golden_identities(kind: str, found: dict[str, dict[str, str]]) -> None:
    """They must never change: states, indexes and caches are found by them."""
    mine = {name: one for name, one in found[kind].items() if name not in OF_LIBRARIES}

    assert mine == GOLDEN[kind]
    assert len(set(mine.values())) == len(mine)


def test_every_format_and_operation_is_pinned() -> None:
    """Whoever adds one adds its identity."""
    assert {
        options.get("format", name.partition(" ")[0]) for name, (_, options) in SOURCES.items()
    } == set(FORMATS)
    assert set(ARGUMENTS) <= set(GOLDEN["defaults"]) < set(GOLDEN["recipes"])


@pytest.mark.long
def test_names_of_code_are_no_part_of_identities(
    tmp_path: Path, found: dict[str, dict[str, str]]
) -> None:
    """Every module and class of ours has another name, and the modules of a user's steps have."""
    command = [sys.executable, "-m", "tests.support.identities", "--renamed"]
    environment = {**os.environ, "GPU_AUG_CACHE": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == found


def pythons() -> dict[str, str]:
    """Executables of this Python and of others that are here, by their versions."""
    others = [shutil.which(f"python3.{minor}") for minor in range(11, 20)]
    others += sorted(map(str, Path.home().glob(".pyenv/versions/3.1[1-9]*/bin/python")))
    found = {".".join(map(str, sys.version_info[:2])): sys.executable}
    for path in filter(None, others):
        command = [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            found.setdefault(done.stdout.strip(), path)
    return found


@pytest.mark.parametrize("python", pythons().items(), ids=lambda python: python[0])
def test_sources_are_the_same_under_every_python(python: tuple[str, str]) -> None:
    """So a run with functions of the user's own goes on after an upgrade."""
    source = str(gpu_aug.ops.foreign.source.__file__)
    command = [python[1], "-c", DESCRIBE, source, str(FOLDER / "functions.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == GOLDEN["sources"]


@pytest.mark.parametrize(
    ("name", "identity"),
    [
        ("tar", "tar 2"),
        ("tfrecord", "tfrecord 4"),
        ("tfrecord with columns", 'tfrecord 4 {"columns": ["image/encoded"], "verify": true}'),
        ("lmdb", "lmdb 3"),
    ],
)
def test_golden_scans(name: str, identity: str, tmp_path: Path) -> None:
    """Indexes of shards say this of who made them, and are made anew where they say something else."""
    shutil.copytree(FOLDER, tmp_path / "data")
    path, options = SOURCES[name]
    dataset: Any = open_dataset(tmp_path / "data" / path, **options)

    assert {one.head.identity["scan"] for one in dataset._found} == {identity}
