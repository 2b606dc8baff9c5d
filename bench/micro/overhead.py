"""Measure the loader's work besides decoding and augmenting, and how long it holds the GIL, without a GPU."""

import resource
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path

import numpy as np
from PIL import Image

from bench.micro.lock import LockClock, lock_process
from bench.micro.queue_model import Work, predict_rate
from bench.micro.rows import Contestant, Measured, Row, Task
from bench.micro.without_gpu import LEFT_OUT, HostDecoder, host_decoders, host_loader, without_gpu
from bench.output.errors import BenchError
from bench.timing import Measurement, Turn, clock, take_turn
from dali_pipes import Loader
from readers import Sample, open_dataset
from readers.prepare import pack

MEANING = (
    "Time per image of a loader with the decoder named: baseline JPEGs in a folder and in tar shards, imagenet_train_jitter of 224, "
    "bfloat16. Python's lock: CPU time of all of 16 threads while they hold it. epochs: by the clock, which counts on an idle machine "
    "only, because beside others many threads get more of it. 16 cores: computed by a model of the threads' queue for the lock; no measurement. Left out: "
    f"{'; '.join(LEFT_OUT)}."
)

_FEW, _MANY = 2, 16  # threads
_CORES = 12.7  # speedup of compiled code by the 16 cores of an H100's host


@dataclass(frozen=True, slots=True)
class CountedTurn(Turn):
    """A turn (timed interval of a contestant) with an additional count.

    Attributes:
        count: Voluntary context switches, or releases of the GIL.
    """

    count: int = 0


@dataclass(frozen=True)
class Sizes:
    """Sizes of the measurement.

    Attributes:
        files: Count of stored photographs.
        epoch: Images per epoch.
        epoch_without_kernels: Images per epoch with decoder="cuda", which is twenty times as fast.
        batch: Images per batch.
    """

    files: int = 512
    epoch: int = 3072
    epoch_without_kernels: int = 20_480
    batch: int = 256


QUICK = Sizes(8, 16, 16, 4)


def rows(task: Task) -> Iterator[Row]:
    """Yield for each storage format a row about the time that the GIL is held, and a row about epochs."""
    sizes = QUICK if task.quick else Sizes()
    store(task.source, task.folder, sizes.files)
    for form in ("folder", "tar"):
        data = str(task.folder / form)
        # First, because it raises at once if the time with the GIL cannot be measured.
        with lock_process(lock_contestants, data, sizes) as contestants:
            yield Row(f"Python's lock, {form}", contestants, _queue)
        with _epoch_contestants(data, sizes) as contestants:
            yield Row(f"epochs, {form}", contestants, _switches)


@contextmanager
def _epoch_contestants(data: str, sizes: Sizes) -> Iterator[dict[str, Contestant]]:
    """Yield, by name, the loaders that are compared by the wall-clock time of full epochs."""

    def read() -> tuple[float, int]:
        return clock(), resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw

    with without_gpu(), ExitStack() as stack:
        loaders = {
            f"cpu, {threads} threads": _loader(data, "cpu", threads, sizes, sizes.epoch)
            for threads in (_FEW, _MANY)
        }
        if "cuda" in host_decoders():
            epoch = sizes.epoch_without_kernels
            loaders["cuda without kernels"] = _loader(data, "cuda", None, sizes, epoch)
        yield {
            name: partial(_take_epochs, stack.enter_context(loader), read)
            for name, loader in loaders.items()
        }


def _take_epochs(loader: Loader, read: Callable[[], tuple[float, int]], seconds: float) -> Turn:
    """Run epochs and return their time, each from the start of its first thread to the end of its last.

    Args:
        loader: The loader.
        read: A function that returns the seconds and the count so far; the result has their sums over all epochs,
            without the time between epochs.
        seconds: Wall-clock time in seconds for all epochs.
    """
    elapsed, counted = 0.0, 0

    def run_epoch() -> int:
        nonlocal elapsed, counted
        before = read()
        num_images = sum(map(len, loader))
        after = read()
        elapsed, counted = elapsed + after[0] - before[0], counted + after[1] - before[1]
        return num_images

    turn = take_turn(run_epoch, seconds=seconds, count=int)
    return CountedTurn(turn.items, elapsed, turn.cpu_seconds, count=counted)


@contextmanager
def lock_contestants(lock: LockClock, data: str, sizes: Sizes) -> Iterator[dict[str, Contestant]]:
    """Yield, by name, the loaders with many threads that are compared by the time that they hold the GIL."""

    def read() -> tuple[float, int]:
        held = lock.read()
        return held.seconds, held.releases

    with without_gpu():
        yield {
            decoder: partial(_take_epochs, _loader(data, decoder, _MANY, sizes, sizes.epoch), read)
            for decoder in host_decoders()
        }


def _loader(
    data: str, decoder: HostDecoder, num_threads: int | None, sizes: Sizes, epoch: int
) -> Loader:
    dataset = open_dataset(data)
    repeated = dataset.take(np.resize(np.arange(len(dataset)), epoch))
    return host_loader(repeated, decoder, num_threads=num_threads, batch_size=sizes.batch)


def _per_image(measurement: Measurement) -> float:
    counts = [turn.count for turn in measurement.turns if isinstance(turn, CountedTurn)]
    return sum(counts) / sum(turn.items for turn in measurement.turns)


def _switches(measured: Measured) -> dict[str, float]:
    return {
        f"{name}, voluntary context switches per image": _per_image(own)
        for name, own in measured.items()
    }


def _queue(measured: Measured) -> dict[str, float]:
    facts = {}
    for decoder, own in measured.items():
        held, releases = own.seconds_per_item, _per_image(own)
        work = Work(max(own.cpu_seconds_per_item - held, 0.0), held, releases)
        facts[f"{decoder}, gives the lock up, per image"] = releases
        rate = predict_rate(work, num_threads=_MANY, cores=_CORES)
        facts[f"{decoder}, images/s of {_MANY} threads on 16 cores (model)"] = rate
    return facts


def store(source: str, folder: Path, num_files: int) -> None:
    """Store baseline JPEGs of a source in a folder and as tar shards, each in a folder named after its format.

    Raises:
        BenchError: The source has no baseline JPEGs.
    """
    dataset = open_dataset(source)
    order = np.random.default_rng(0).permutation(len(dataset)).tolist()
    entries = (entry for index in order for entry in dataset.fetch([index]))
    images = (bytes(entry.image or b"") for entry in entries if isinstance(entry, Sample))
    stored = list(islice(filter(_is_baseline, images), num_files))
    if not stored:
        raise BenchError(f"{source} has no baseline JPEG: give photographs")
    files = folder / "folder" / "photographs"  # a class folder, so that they have labels
    files.mkdir(parents=True)
    for number, data in enumerate(stored):
        (files / f"{number:05}.jpg").write_bytes(data)
    pack(str(files.parent), str(folder / "tar"), shuffle=0)


def _is_baseline(data: bytes) -> bool:
    """Return whether decoder="cuda" decodes a file; our threads would render other files."""
    if not data.startswith(b"\xff\xd8"):
        return False
    image = Image.open(BytesIO(data))
    return image.mode in ("RGB", "L") and not image.info.get("progressive")
