"""Real photographs, made images and the rules of the GPU machine, for every test."""

import atexit
import gc
import importlib
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")  # before its import: no look at the network
# Before torch's import: threads of several workers would wait for one another.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
# Compiled code stays where it is for tests that put the other caches into folders of their own.
os.environ.setdefault(
    "NUMBA_CACHE_DIR", os.environ.get("GPU_AUG_CACHE") or str(Path.home() / ".cache" / "gpu-aug")
)
if not os.environ.get("GPU_AUG_CACHE"):
    # What loaders of the tests' data keep is of no use to anybody later.
    os.environ["GPU_AUG_CACHE"] = _cache = tempfile.mkdtemp(prefix="gpu-aug-tests-")
    atexit.register(shutil.rmtree, _cache, ignore_errors=True)

import numpy as np
import pytest
import torch
from PIL import Image

from bench.baselines.videos import load_torchcodec
from bench.compare.photographs import make_photographs
from bench.compare.task import Unable
from tests.support.agreement import Agreement
from tests.support.commands import Run, call_command
from tests.support.extent import EVERYTHING
from tests.support.groups import Rules, outcome

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that write tables of the documentation."""
    parser.addoption(
        "--write-agreement", type=Path, help="write the table of how far engines agree here"
    )
    parser.addoption(
        "--write-formats", action="store_true", help="write the table of docs/reading.md anew"
    )
    parser.addoption("--write-imports", action="store_true", help="write docs/imports.md anew")
    parser.addoption(
        "--write-image-kinds", action="store_true", help="write the table of docs/images.md anew"
    )
    parser.addoption(
        "--write-public-names", action="store_true", help="write tests/data/public_names.txt anew"
    )
    parser.addoption(
        "--whole",
        action="store_true",
        help="fail unless each promise of tests/groups.toml has a test that passed",
    )
    parser.addoption("--write-outcome", type=Path, help="write what ran, where and when")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the long tests to `make test-all`."""
    long = [] if EVERYTHING else [item for item in items if item.get_closest_marker("long")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in set(long)]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[None]:
    """Keep the garbage collector from going through ten thousand tests and all modules again and again.

    While they are collected that takes a quarter of the time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    """Let the garbage collector end what is left."""
    gc.unfreeze()


_BROKEN = pytest.StashKey[list[str]]()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Count what ran: with --whole fail if that is too little, with --write-outcome write it down."""
    config = session.config
    reporter = config.pluginmanager.getplugin("terminalreporter")
    path = config.getoption("--write-outcome")
    if reporter is None or not (config.getoption("--whole") or path):  # or a worker of pytest-xdist
        return
    passed = [report.nodeid for report in reporter.stats.get("passed", [])]
    reasons = [report.longrepr[2] for report in reporter.stats.get("skipped", [])]
    rules = Rules.read()
    if path:
        path.write_text(outcome(rules.count(passed), reasons, session.testsfailed))
    if config.getoption("--whole") and (broken := rules.broken(passed, reasons)):
        config.stash[_BROKEN] = broken
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say last what --whole found: whoever reads the end of a log must see why it failed."""
    for sentence in config.stash.get(_BROKEN, []):
        terminalreporter.write_line(sentence, red=True)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Calls the command line; gives its exit code, standard output and standard error."""
    return partial(call_command, capsys)


@pytest.fixture
def every_payload_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave payloads of any length views into their files, as otherwise those of more than 1 MiB."""
    monkeypatch.setenv("GPU_AUG_COPIED_BYTES", "0")


@pytest.fixture(scope="session")
def agreement(request: pytest.FixtureRequest) -> Iterator[Agreement]:
    """What the comparisons found; written at the end with --write-agreement."""
    found = Agreement()
    yield found
    if path := request.config.getoption("--write-agreement"):
        found.write(path)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what this machine cannot run; on the GPU machine a missing GPU or DALI is a failure."""
    is_visit = os.environ.get("FAIL_WITHOUT_CUDA") == "1"
    if item.get_closest_marker("needs_cuda") and not torch.cuda.is_available():
        if is_visit:
            pytest.fail("FAIL_WITHOUT_CUDA=1, and torch sees no CUDA device")
        pytest.skip("no CUDA device")
    if item.get_closest_marker("needs_dali"):
        try:
            importlib.import_module("nvidia.dali")
        except ImportError as error:
            if is_visit:
                pytest.fail(f"FAIL_WITHOUT_CUDA=1, and nvidia.dali cannot be imported: {error}")
            pytest.skip(f"no DALI: {error}")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with real photographs (photos/) and odd or broken images (odd/), where it is there."""
    if not SHARED_DATA.is_dir():
        pytest.skip("no ../shared/data beside this checkout")
    return SHARED_DATA


@pytest.fixture(scope="session")
def torchcodec_decoders() -> Any:
    """The module torchcodec.decoders, where it finds the FFmpeg libraries that its wheel does not bring."""
    try:
        return load_torchcodec()
    except Unable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Twelve real photographs as JPEG files, of several sizes."""
    if SHARED_DATA.is_dir():
        found = sorted((SHARED_DATA / "photos" / "pixabay_cc0").rglob("*.jpg"))
        return found[:: len(found) // 12][:12]
    pytest.importorskip("skimage")
    folder = tmp_path_factory.mktemp("photos")
    make_photographs(folder, per_class=6)
    large = [path for path in sorted(folder.rglob("*.jpg")) if _shorter_side(path) > 300]
    return large[:: len(large) // 12][:12]


def _shorter_side(path: Path) -> int:
    with Image.open(path) as image:
        return min(image.size)


@pytest.fixture(scope="session")
def jpeg() -> Callable[..., bytes]:
    """A maker of small JPEGs: a smooth picture with some noise, different for each seed."""

    def make(height: int, width: int, seed: int = 0, **options: object) -> bytes:
        rng = np.random.default_rng(seed)
        rows, columns = np.mgrid[:height, :width]
        picture = np.stack([rows + 3 * seed, columns, rows + columns], -1) % 200
        picture = picture + rng.integers(0, 20, picture.shape)
        stream = io.BytesIO()
        Image.fromarray(picture.astype(np.uint8)).save(stream, "JPEG", **{"quality": 90, **options})
        return stream.getvalue()

    return make


@pytest.fixture(scope="session", autouse=True)
def progressive_decoder_is_compiled_at_once() -> Iterator[None]:
    """Let a file wait for our decoder, as it does once that is compiled, whatever the cache of compiled code has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dali_pipes.decode.jpeg_batch.compile_progressive", lambda: False)
        yield
