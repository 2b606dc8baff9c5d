"""What a release is made of: one version, whole packages, and a wheel that works where no checkout is."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.support.example_data import make_photos
from tests.support.pages import ROOT, Page

PACKAGES = ("bench", "dali_pipes", "gpu_aug", "readers")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
VERSION = PROJECT["project"]["version"]
LEFT_OUT = (
    ".git",
    ".gpu",
    ".peers",
    ".venv",
    ".*_cache",
    "__pycache__",
    "build",
    "demo",
    "dist",
    "*.egg-info",
)
NOT_INSTALLED = "bench/results/"
"""Measurements, which stay in the checkout."""


def data_files() -> set[str]:
    """Every file of the packages that is no module, as ``package/...``."""
    found = {
        str(path.relative_to(ROOT)): path
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
    }
    return {
        name
        for name, path in found.items()
        if path.is_file() and path.suffix not in (".py", ".pyc") and NOT_INSTALLED not in name
    }


def test_packages_bring_their_data() -> None:
    """Every file beside the modules is named in pyproject.toml, typing's mark among them."""
    patterns = PROJECT["tool"]["setuptools"]["package-data"]
    named = [
        f"{package}/{pattern}"
        for key, values in patterns.items()
        for package in (PACKAGES if key == "*" else [key])
        for pattern in values
    ]
    files = data_files()

    assert [name for name in files if not any(fnmatch(name, one) for one in named)] == []
    assert {f"{package}/py.typed" for package in PACKAGES} <= files


def test_the_version_is_one() -> None:
    """What cites the project names the version and authors of pyproject.toml; no module repeats the version."""
    cited = YAML(typ="safe", pure=True).load((ROOT / "CITATION.cff").read_text("utf-8"))
    modules = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]

    assert cited["version"] == VERSION
    assert cited["license"] == PROJECT["project"]["license"]
    assert cited["authors"] == PROJECT["project"]["authors"]
    assert {"cff-version", "message", "title", "authors"} <= cited.keys()
    assert [path for path in modules if f'"{VERSION}"' in path.read_text("utf-8")] == []


def test_the_security_policy_names_tests_that_are_there() -> None:
    """Each promise stands on tests, by file and name."""
    named = re.findall(r"`(tests/[\w/.]+)::(test_\w+)`", (ROOT / "SECURITY.md").read_text("utf-8"))

    assert len(named) > 20
    assert [
        (path, name)
        for path, name in named
        if f"def {name}(" not in (ROOT / path).read_text("utf-8")
    ] == []


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and with the wheel that was built from it."""
    source = tmp_path_factory.mktemp("release") / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
    done = call([sys.executable, "-m", "build", "--no-isolation", str(source)])
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return source / "dist"


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with nothing but the wheel, which sees the packages that this one has."""
    environment = tmp_path_factory.mktemp("installed") / "environment"
    python = environment / "bin" / "python"
    (wheel,) = built.glob("*.whl")
    for command in (
        [sys.executable, "-m", "venv", "--without-pip", str(environment)],
        [*pip(python), "install", "--quiet", "--no-deps", "--no-index", str(wheel)],
    ):
        done = call(command)
        assert done.returncode == 0, done.stderr
    (site,) = environment.glob("lib/python3*/site-packages")
    (site / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return environment


def pip(python: Path) -> list[str]:
    """Our pip at work on another environment."""
    return [sys.executable, "-m", "pip", "--python", str(python)]


def call(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program that does not see this checkout."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, **options
    )


@pytest.mark.long
def test_the_wheel_holds_the_packages(built: Path) -> None:
    """All modules and data of the four packages, the licence, and nothing else."""
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    notes = f"gpu_aug-{VERSION}.dist-info/"
    modules = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
    }

    assert {name for name in names if not name.startswith(notes)} == modules | data_files()
    assert f"{notes}licenses/LICENSE" in names


@pytest.mark.long
def test_the_sdist_holds_the_rest(built: Path) -> None:
    """Whoever has the sdist alone can test and read it: tests with their data, pages, examples."""
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    folders = ("tests", "docs", "examples", "bench/results")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    made = ROOT / "docs" / "made"
    wanted = {
        str(path.relative_to(ROOT))
        for path in files
        if path.suffix != ".pyc" and made not in path.parents
    }

    assert wanted - names == set()
    assert {"Makefile", "constraints.txt", "CITATION.cff", "LICENSE", ".ci/run"} <= names
    assert [name for name in names if name.endswith(".pyc") or ".venv" in name] == []


@pytest.mark.long
def test_indexes_would_take_it(built: Path) -> None:
    """What an index checks before it takes a release: metadata, and a README that it can show."""
    files = map(str, sorted(built.iterdir()))
    done = call([sys.executable, "-m", "twine", "check", "--strict", *files])

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_the_wheel_works_alone(installed: Path, tmp_path: Path) -> None:
    """The command says what the machine has, and the README's first example trains."""
    make_photos(tmp_path / "photos")
    (tmp_path / "first.py").write_text(Page("README.md").blocks[0].text)
    python = str(installed / "bin" / "python")
    where = "import bench, dali_pipes, gpu_aug, readers; print(dali_pipes.__file__, bench.__file__)"
    kernels = "from dali_pipes.decode.cuda_jpeg.records import source; source('gpu'), source('cpu')"

    doctor = call([str(installed / "bin" / "gpu-aug"), "doctor"], cwd=tmp_path)
    version = call([str(installed / "bin" / "gpu-aug"), "--version"], cwd=tmp_path)
    found = call([python, "-c", where], cwd=tmp_path)
    text = call([python, "-c", kernels], cwd=tmp_path)
    first = call([python, "first.py"], cwd=tmp_path)

    assert (doctor.returncode, "engine fused" in doctor.stdout) == (0, True), doctor.stderr
    assert version.stdout == f"gpu-aug {VERSION}\n"
    assert all(path.startswith(str(installed)) for path in found.stdout.split()), found
    assert text.returncode == 0, text.stderr
    assert first.returncode == 0, first.stderr
