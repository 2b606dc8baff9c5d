"""What every format keeps to: the bytes of its own library, any order, any thread, any process, exact resume.

The table of formats in docs/reading.md is made of what is shown here: `pytest tests/readers/formats/test_formats.py --write-formats`.
"""

import pickle
import random
import shutil
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from dali_pipes import Loader
from dali_pipes.video.clips import Clips
from gpu_aug import BoxParams, CenterCrop, HorizontalFlip, KeypointParams, RandomResizedCrop, Recipe
from readers import BadSample, Dataset, Sample, SourceError, open_dataset
from readers.detect.registry import FORMATS
from tests.support.annotated import BOX, HEIGHT, WIDTH
from tests.support.entries import fetch_all
from tests.support.one_other import all_writers
from tests.support.s3_server import Storage, storage
from tests.support.target_files import CORNERS, TARGETS
from tests.support.writers import Expected, Written

# A recipe with upright boxes, or without boxes, warns of data with oriented ones.
pytestmark = pytest.mark.filterwarnings("ignore:the data has oriented boxes:UserWarning")
NUM_SAMPLES = 23
PAGE = Path(__file__).resolve().parents[3] / "docs" / "reading.md"
COLUMNS = ("labels", "boxes", "keypoints", "masks", "remote")
OF_ALL = {"random access", "global shuffle", "exact resume"}
WRITERS = all_writers()
FLIPPED = [[WIDTH - x, y] for x, y in CORNERS]
every_format = pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)


@pytest.fixture(scope="module")
def samples(jpeg: Callable[..., bytes]) -> list[Written]:
    """Samples in an order that is no writer's own: neither by name, nor by class."""
    written = [
        Written(f"photo-{number:03d}", jpeg(80 + number, 91, seed=number), number % 3)
        for number in range(NUM_SAMPLES)
    ]
    random.Random(0).shuffle(written)
    return written


@pytest.fixture(scope="module")
def made(
    tmp_path_factory: pytest.TempPathFactory, samples: list[Written]
) -> Callable[[ModuleType], Any]:
    """A maker of the samples in a format, once per format."""

    @cache
    def make(writer: ModuleType) -> Any:
        return writer.write(tmp_path_factory.mktemp(writer.FORMAT), samples)

    return make


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storage]:
    """An HTTP server of the folders that `made` writes to."""
    pytest.importorskip("obstore")
    with storage(tmp_path_factory.getbasetemp()) as running:
        yield running


@pytest.fixture(scope="module")
def proved() -> dict[str, set[str]]:
    """What was shown of each format; the tests fill it."""
    return {name: set() for name in FORMATS}


def opened(writer: ModuleType, source: Any) -> Dataset:
    return open_dataset(source, **getattr(writer, "OPTIONS", {}))


def told(entry: Sample | BadSample) -> Expected:
    payload = entry.image if entry.video is None else entry.video
    assert payload is not None
    return Expected(entry.key, bytes(payload), entry.label)


def folder_of(source: Any, root: Path) -> Path:
    """The folder below the root that a writer wrote a source to."""
    first = source[0] if isinstance(source, list) else source
    return root / first.relative_to(root).parts[0]


@pytest.fixture
def copied(
    writer: ModuleType,
    made: Callable[[ModuleType], Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Any:
    """The samples in a format in another folder, to which no index was copied."""
    source = made(writer)
    old = folder_of(source, tmp_path_factory.getbasetemp())
    new = tmp_path_factory.mktemp("copied") / "data"
    shutil.copytree(old, new, ignore=shutil.ignore_patterns("*gpuaug*"), symlinks=True)
    if isinstance(source, list):
        return [new / one.relative_to(old) for one in source]
    return new / source.relative_to(old)


@pytest.fixture
def dataset(writer: ModuleType, made: Callable[[ModuleType], Any]) -> Dataset:
    """The samples in a format."""
    return opened(writer, made(writer))


def all_of(dataset: Dataset) -> list[Expected]:
    return [told(entry) for entry in fetch_all(dataset)]


def test_every_random_access_format_is_here() -> None:
    """A format without a writer is one that none of this was shown for."""
    wanted = {name for name, kind in FORMATS.items() if kind.random_access}

    assert wanted == WRITERS.keys()
    assert TARGETS.keys() <= FORMATS.keys()
    assert [name for name, one in WRITERS.items() if not getattr(one, "CHECKED_AGAINST", "")] == []


@every_format
def test_bytes_are_those_of_the_formats_own_library(
    writer: ModuleType,
    made: Callable[[ModuleType], Any],
    samples: list[Written],
    proved: dict[str, set[str]],
) -> None:
    """Keys, images and labels are what the format's library reads from the same files, in its order."""
    source = made(writer)
    expected = writer.expected(source)

    assert all_of(opened(writer, source)) == expected
    assert len(expected) == NUM_SAMPLES
    if not getattr(writer, "DECODED", False):  # as arrays are, which hold no JPEGs
        assert sorted(one.image for one in expected) == sorted(one.image for one in samples)
    proved[writer.FORMAT] |= {"labels"} if len({one.label for one in expected}) > 1 else set()


@pytest.mark.parametrize(
    ("name", "write"), [(name, write) for name, written in TARGETS.items() for write in written]
)
def test_targets_move_with_their_picture(
    name: str, write: Callable[[Path], Any], tmp_path: Path, proved: dict[str, set[str]]
) -> None:
    """Of a batch that is flipped, boxes, keypoints and masks are where the filled box of the picture is."""
    source, options = write(tmp_path)
    recipe = Recipe(
        [CenterCrop((HEIGHT, WIDTH)), HorizontalFlip(1)],
        boxes=BoxParams(),
        keypoints=KeypointParams(flip_pairs=()),
    )
    fixed: dict[str, Any] = {"device": "cpu", "decoder": "cpu", "last_batch": "partial"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about classes and coordinates that nothing says
        dataset = open_dataset(source, **options)
    [batch] = Loader(dataset, recipe, batch_size=1, shuffle="none", **fixed)
    left, top, right, bottom = WIDTH - BOX[2], BOX[1], WIDTH - BOX[0], BOX[3]
    inside = torch.zeros(HEIGHT, WIDTH, dtype=torch.bool)
    inside[top:bottom, left:right] = True

    assert torch.equal(batch.images[0].amax(0) > 0, inside)
    if batch.boxes is not None:
        assert batch.boxes[0].numpy() == pytest.approx(
            np.array([[left, top, right, bottom]]), abs=1e-3
        )
        proved[name].add("boxes")
    if batch.keypoints is not None and len(batch.keypoints[0]):
        assert batch.keypoints[0].numpy() == pytest.approx(np.array(FLIPPED), abs=1e-3)
        proved[name].add("keypoints")
    if batch.masks is not None:
        assert torch.equal(batch.masks[0].reshape(HEIGHT, WIDTH) > 0, inside)
        proved[name].add("masks")
    assert proved[name] & {"boxes", "masks"}


@every_format
def test_any_order_and_repeats(
    writer: ModuleType, dataset: Dataset, proved: dict[str, set[str]]
) -> None:
    """A batch comes in the order that was asked for, however often an index is in it."""
    wanted = random.Random(1).choices(range(NUM_SAMPLES), k=100)
    one_by_one = [told(dataset.fetch([index])[0]) for index in range(NUM_SAMPLES)]
    fetched = dataset.fetch(wanted)

    assert [entry.index for entry in fetched] == wanted
    assert [told(entry) for entry in fetched] == [one_by_one[index] for index in wanted]
    with pytest.raises(IndexError, match="index must be in"):
        dataset.fetch([NUM_SAMPLES])
    proved[writer.FORMAT].add("random access")


@every_format
def test_threads(dataset: Dataset) -> None:
    """Eight threads that fetch at once get what one gets."""
    alone = all_of(dataset)
    orders = [random.Random(seed).sample(range(NUM_SAMPLES), NUM_SAMPLES) for seed in range(16)]
    with ThreadPoolExecutor(8) as pool:
        batches = list(pool.map(dataset.fetch, orders))

    for order, batch in zip(orders, batches, strict=True):
        assert [told(entry) for entry in batch] == [alone[index] for index in order]


@every_format
def test_pickled(dataset: Dataset) -> None:
    """What another process unpickles is the same dataset."""
    dataset.fetch([0])  # with whatever is open
    again = pickle.loads(pickle.dumps(dataset))

    assert (again.fingerprint, again.fetch([3])) == (dataset.fingerprint, dataset.fetch([3]))


@every_format
def test_fingerprint(
    writer: ModuleType, dataset: Dataset, copied: Any, samples: list[Written], tmp_path: Path
) -> None:
    """It is that of the data, wherever it lies, and another one when the data is another."""
    other = opened(writer, writer.write(tmp_path, samples[:-1]))
    before = dataset.fingerprint

    assert opened(writer, copied).fingerprint == before
    assert other.fingerprint != before
    assert len(before) == 32


@every_format
def test_columns(dataset: Dataset) -> None:
    """The columns that selections use say what the samples say."""
    entries = fetch_all(dataset)
    exact = [sum(map(len, entry.fields.values())) for entry in entries]

    assert dataset.column("label").tolist() == [entry.label for entry in entries]
    assert dataset.column("num_bytes").tolist() in (exact, [-1] * NUM_SAMPLES)
    assert dataset.block_size >= 1


@every_format
def test_one_bad_record_is_one_bad_sample(
    writer: ModuleType, dataset: Dataset, copied: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A record that is damaged takes no neighbour with it."""
    if not hasattr(writer, "damage"):
        pytest.skip("this format cannot lose a single record")
    sound = all_of(dataset)
    entries = fetch_all(opened(writer, writer.damage(copied)))
    [bad] = [entry for entry in entries if isinstance(entry, BadSample)]

    assert bad.reason
    assert str(tmp_path_factory.getbasetemp()) not in bad.reason + bad.key
    for entry, expected in zip(entries, sound, strict=True):
        assert entry is bad or told(entry) == expected


@every_format
def test_zero_copy(writer: ModuleType, samples: list[Written], tmp_path: Path) -> None:
    """Payloads of more than 1 MiB are views where the registry says so, and outlive dataset and files."""
    write = getattr(writer, "write_plain", writer.write)
    long = [replace(sample, image=sample.image + bytes(1 << 20)) for sample in samples[:3]]
    dataset = opened(writer, write(tmp_path, long))
    expected, [entry] = all_of(dataset), dataset.fetch([1])
    view = entry.image if entry.video is None else entry.video
    owner = getattr(view, "obj", view)
    del dataset
    shutil.rmtree(tmp_path)

    is_view = isinstance(view, memoryview) and not isinstance(owner, bytes | bytearray)
    assert is_view == FORMATS[writer.FORMAT].zero_copy
    assert view.readonly if is_view else isinstance(view, bytes | memoryview)
    assert told(entry) == expected[1]


@every_format
def test_remote(
    writer: ModuleType,
    made: Callable[[ModuleType], Any],
    dataset: Dataset,
    server: Storage,
    tmp_path_factory: pytest.TempPathFactory,
    proved: dict[str, set[str]],
) -> None:
    """Files on an HTTP server are the files on the disk where the registry says so; others are refused."""
    kind, root = FORMATS[writer.FORMAT], tmp_path_factory.getbasetemp()
    folder = folder_of(made(writer), root)
    files = [path for path in sorted(folder.rglob("*")) if str(path).endswith(kind.suffixes)]
    urls = [f"{server.url}/{path.relative_to(root)}" for path in files or [folder]]
    if not kind.remote:
        with pytest.raises(SourceError, match=r"copy it here|of no known kind"):
            opened(writer, urls[0])
        return
    remote = opened(writer, urls)

    assert all_of(remote) == all_of(dataset)
    assert remote.fingerprint == dataset.fingerprint
    proved[writer.FORMAT].add("remote")


@every_format
def test_exact_resume(
    writer: ModuleType, made: Callable[[ModuleType], Any], proved: dict[str, set[str]]
) -> None:
    """A run that was left in the middle goes on with the samples that are left, on two ranks."""
    source = made(writer)

    def loader(**options: Any) -> Loader:
        fixed: dict[str, Any] = {"device": "cpu", "decoder": "cpu", "last_batch": "partial"}
        dataset = opened(writer, source)
        if getattr(writer, "HOLDS_VIDEOS", False):
            dataset = Clips(dataset, num_frames=1, stride=1)
        return Loader(dataset, Recipe([RandomResizedCrop(8)]), seed=3, **fixed, **options)

    [uninterrupted] = loader(batch_size=NUM_SAMPLES)
    first = loader(batch_size=4)
    begun = list(islice(first, 2))
    rest = []
    for rank in range(2):
        second = loader(batch_size=3, rank=rank, world_size=2)
        second.load_state_dict(first.state_dict())
        rest += list(second)
    images = {
        index: image
        for batch in (*begun, *rest)
        for index, image in zip(batch.indices.tolist(), batch.images, strict=True)
    }

    assert sum(len(batch.indices) for batch in (*begun, *rest)) == NUM_SAMPLES
    assert uninterrupted.indices[:8].tolist() == [
        index for batch in begun for index in batch.indices.tolist()
    ]
    for index, image in zip(uninterrupted.indices.tolist(), uninterrupted.images, strict=True):
        assert torch.equal(image, images[index])
    assert sorted(uninterrupted.indices.tolist()) == list(range(NUM_SAMPLES))
    proved[writer.FORMAT] |= {"global shuffle", "exact resume"}


def test_the_table_of_formats(proved: dict[str, set[str]], request: pytest.FixtureRequest) -> None:
    """docs/reading.md says of every format what was shown above, and nothing else."""
    if not all(proved[name] >= OF_ALL for name in WRITERS) or not proved["stream"]:
        pytest.skip("only a part of the tests above ran")
    table = _table(proved)
    text = PAGE.read_text()
    if request.config.getoption("--write-formats"):
        start, stop = text.index("| format |"), text.index("\n\n", text.index("| format |"))
        PAGE.write_text(text[:start] + table + text[stop:])
        return

    assert table in text


def _table(proved: dict[str, set[str]]) -> str:
    """The rows of all formats that are read at random, of which `OF_ALL` is true."""
    dash = "-"
    lines = ["| format | " + " | ".join(COLUMNS) + " | extra | checked against |"]
    lines.append("| --- " + "| :-: " * len(COLUMNS) + "| --- | --- |")
    for name, writer in ((name, WRITERS[name]) for name in FORMATS if name in WRITERS):
        cells = ["yes" if column in proved[name] else dash for column in COLUMNS]
        cells += [FORMATS[name].extra or dash, writer.CHECKED_AGAINST]
        lines.append(f"| {FORMATS[name].title} | {' | '.join(cells)} |")
    return "\n".join(lines)
