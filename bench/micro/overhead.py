"""The proxies by which the host's path of a batch is judged on a small machine without a GPU, and their aims."""

import resource
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

from bench.cli.arguments import check_writable
from bench.compare.images import Repeated
from bench.compare.photographs import make_photographs
from bench.compare.timer import rotated
from bench.micro.lock import LockClock, with_lock_clock
from bench.micro.queue_model import Work, predict_rate
from bench.micro.without_gpu import LEFT_OUT, HostDecoder, host_decoders, host_loader, without_gpu
from bench.output.errors import BenchError
from bench.output.results import save_result
from bench.output.text import print_sentence, result_table, wide_console
from dali_pipes import Loader
from gpu_aug.compiled.clock import clock
from readers import BadSample, Dataset, open_dataset
from readers.dataset import Subset
from readers.prepare import pack
from readers.selection import Listed

MEANING = (
    "Medians over epochs in turns, after one that is not counted; baseline JPEGs, imagenet_train_jitter of 224, "
    "bfloat16. images/s and switches count on an idle machine only: beside others many threads get more of it. holds the lock: "
    "CPU time of all Python threads. 16 cores: computed by a model of the threads' queue for "
    "the lock, from these figures; no measurement."
)
FEW, MANY = 2, 16
_FORMS = ("folder", "tar")
_CORES = 12.7  # what compiled code gains from the 16 cores of an H100's host
_AIMED = {"held_seconds": 4e-6, "releases": 1 / 8}  # eight for each part of 64 rows
_AIMS = {
    f"switches per image, cpu, {MANY} threads": 1,
    f"images/s of {MANY} threads relative to {FEW}, cpu": 1.0,
    "holds the lock, us per image, cpu": 4,
    "holds the lock, us per image, cuda": 4,
    "holds the lock, us per image, dali": 4,
    "images/s, cuda without kernels": 40_000,
    f"CPU ms per image, cpu, {FEW} threads": "not more",
    f"CPU ms per image, cpu, {MANY} threads": "not more",
}


@dataclass(frozen=True)
class OverheadSettings:
    """Sizes of the measurement.

    Attributes:
        num_files: Photographs; others are left out.
        num_images: Images of an epoch.
        num_images_without_kernels: The same with decoder="cuda", which is twenty times as fast.
        batch_size: Images of a batch.
        rounds: Epochs that are counted, of each loader.
    """

    num_files: int = 512
    num_images: int = 3072
    num_images_without_kernels: int = 20_480
    batch_size: int = 256
    rounds: int = 5


QUICK = OverheadSettings(8, 16, 16, 4, 1)


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the photographs in one form; one value of each round."""

    name: str
    data: str
    runs: tuple[float, ...]

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        runs = [round(run, 4) for run in self.runs]
        return {
            "figure": self.name,
            "data": self.data,
            "value": round(median(runs), 4),
            "runs": runs,
            "aim": _AIMS.get(self.name),
        }


def overhead_and_show(
    source: str | None, settings: OverheadSettings, *, json_path: Path | None
) -> None:
    """Measure, print and write down.

    Args:
        source: A source as for `readers.open_dataset`; None takes the photographs that scikit-image ships.
        settings: Sizes.
        json_path: Where the result goes as well.

    Raises:
        readers.ReadersError: There is nothing to read.
        BenchError: There are no baseline JPEGs.
    """
    check_writable(json_path)
    console = wide_console()
    with console.status("measuring"), TemporaryDirectory(prefix="gpu-aug-") as folder:
        num_bytes = _store(source, Path(folder), settings.num_files)
        figures = list(measure(Path(folder), settings))
    table = result_table("the host's path of a batch", MEANING, "figure", *_FORMS, "aim")
    for name in dict.fromkeys(figure.name for figure in figures):
        values = {one.data: f"{median(one.runs):.4g}" for one in figures if one.name == name}
        table.add_row(name, *(values.get(form, "") for form in _FORMS), str(_AIMS.get(name, "")))
    console.print(table)
    print_sentence(console, f"left out: {'; '.join(LEFT_OUT)}")
    told = {"data": source or "scikit-image's photographs", **vars(settings)}
    told["mean_file_bytes"] = round(num_bytes)
    rows = [figure.to_dict() for figure in figures]
    save_result(
        json_path, console, "bench overhead", told, rows, meaning=MEANING, left_out=LEFT_OUT
    )


def measure(folder: Path, settings: OverheadSettings) -> Iterator[Figure]:
    """Measure the photographs in the forms that lie in a folder."""
    for form, found in _rates(folder, settings).items():
        few, many = found[FEW], found[MANY]
        names = iter(_AIMS)
        yield Figure(next(names), form, tuple(one.switches for one in many))
        pairs = zip(few, many, strict=True)
        yield Figure(next(names), form, tuple(b.rate / a.rate for a, b in pairs))
        for threads, epochs in ((FEW, few), (MANY, many)):
            name, runs = f"CPU ms per image, cpu, {threads} threads", [e.cpu for e in epochs]
            yield Figure(name, form, tuple(1e3 * run for run in runs))
        if 0 in found:
            rates = tuple(epoch.rate for epoch in found[0])
            yield Figure("images/s, cuda without kernels", form, rates)
            cpu = tuple(1e6 * epoch.cpu for epoch in found[0])
            yield Figure("CPU us per image, cuda without kernels", form, cpu)
    held = with_lock_clock(_measure_lock, str(folder), settings)
    for form, decoder, runs in held:
        lock, releases, free = (tuple(one[part] for one in runs) for part in range(3))
        yield Figure(
            f"holds the lock, us per image, {decoder}", form, tuple(1e6 * one for one in lock)
        )
        yield Figure(f"gives the lock up, per image, {decoder}", form, releases)
        work = Work(*map(median, (free, lock, releases)))
        for when, one in (("", work), (" with the aims", replace(work, **_AIMED))):
            rate = predict_rate(one, num_threads=MANY, cores=_CORES)
            yield Figure(
                f"images/s, {decoder}, {MANY} threads of 16 cores{when} (model)", form, (rate,)
            )


def measure_held(lock: LockClock, dataset: Dataset, num_images: int) -> float:
    """Return the CPU seconds per image that cpu+fused with one thread holds the lock; for `with_lock_clock`."""
    repeated = Repeated(dataset, np.arange(min(len(dataset), num_images)), length=num_images)
    with host_loader(repeated, "cpu", num_threads=1, batch_size=64) as loader:
        _run_epoch(loader)
        before = lock.read()
        _run_epoch(loader)
        return (lock.read() - before).seconds / num_images


@dataclass(frozen=True, slots=True)
class _Epoch:
    """An epoch: images per second; CPU seconds and voluntary context switches per image."""

    rate: float
    cpu: float
    switches: float


def _rates(folder: Path, settings: OverheadSettings) -> dict[str, dict[int, list[_Epoch]]]:
    """Run epochs by the clock: of each form and number of threads of cpu+fused; 0 is "cuda" with one for each core."""
    found: dict[str, dict[int, list[_Epoch]]] = {form: {} for form in _FORMS}
    long = replace(settings, num_images=settings.num_images_without_kernels)
    with ExitStack() as stack:
        stack.enter_context(without_gpu())
        loaders = {}
        for form in _FORMS:
            for threads in (FEW, MANY):
                loaders[form, threads] = _loader(folder / form, "cpu", threads, settings)
            if "cuda" in host_decoders():
                loaders[form, 0] = _loader(folder / form, "cuda", None, long)
        for loader in loaders.values():
            stack.enter_context(loader)
        for turn in range(settings.rounds + 1):
            for form, threads in rotated(list(loaders), turn):
                epoch = _run_epoch(loaders[form, threads])
                if turn:  # before, seek points are found and functions compiled
                    found[form].setdefault(threads, []).append(epoch)
    return found


def _measure_lock(
    lock: LockClock, folder: str, settings: OverheadSettings
) -> list[tuple[str, str, list[tuple[float, float, float]]]]:
    """Return for each form and decoder, and each epoch: held seconds, releases and free seconds, per image."""
    runs: dict[tuple[str, HostDecoder], list[tuple[float, float, float]]] = {}
    with ExitStack() as stack:
        stack.enter_context(without_gpu())
        loaders = {
            (form, decoder): stack.enter_context(
                _loader(Path(folder) / form, decoder, MANY, settings)
            )
            for form in _FORMS
            for decoder in host_decoders()
        }
        for turn in range(settings.rounds + 1):
            for key in rotated(list(loaders), turn):
                before = lock.read()
                epoch = _run_epoch(loaders[key])
                held = lock.read() - before
                count = settings.num_images
                of_image = (held.seconds / count, held.releases / count)
                if turn:
                    free = max(epoch.cpu - of_image[0], 0.0)
                    runs.setdefault(key, []).append((*of_image, free))
    return [(form, decoder, own) for (form, decoder), own in runs.items()]


def _loader(
    path: Path, decoder: HostDecoder, num_threads: int | None, settings: OverheadSettings
) -> Loader:
    dataset = open_dataset(str(path))
    picks = np.resize(np.arange(len(dataset)), settings.num_images)
    repeated = Subset(dataset, Listed(picks))
    return host_loader(repeated, decoder, num_threads=num_threads, batch_size=settings.batch_size)


def _run_epoch(loader: Loader) -> _Epoch:
    """Run an epoch, from its first thread's start to the end of the last."""
    before, began = resource.getrusage(resource.RUSAGE_SELF), clock()
    count = sum(len(batch) for batch in loader)
    seconds, after = clock() - began, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return _Epoch(count / seconds, cpu / count, (after.ru_nvcsw - before.ru_nvcsw) / count)


def _store(source: str | None, folder: Path, num_files: int) -> float:
    """Store baseline JPEGs in a folder and in a tar, each in a folder named by its form; return their mean bytes.

    Raises:
        readers.ReadersError: There is nothing to read.
        BenchError: There are none.
    """
    if source is None:
        source = str(folder / "made")
        make_photographs(Path(source), per_class=-(-num_files // 8))
    dataset = open_dataset(source)
    sizes: list[int] = []
    (folder / "folder").mkdir()
    for index in np.random.default_rng(0).permutation(len(dataset)).tolist():
        [sample] = dataset.fetch([index])
        if len(sizes) == num_files:
            break
        if not isinstance(sample, BadSample) and _is_baseline(bytes(sample.image or b"")):
            path = folder / "folder" / f"{len(sizes):05}.jpg"
            sizes.append(path.write_bytes(sample.image or b""))
    if not sizes:
        raise BenchError(f"{source} has no baseline JPEG: give photographs")
    pack(str(folder / "folder"), str(folder / "tar"), shuffle=0)
    return sum(sizes) / len(sizes)


def _is_baseline(data: bytes) -> bool:
    """Whether a file is a JPEG that decoder="cuda" decodes: others would be rendered by our threads."""
    if not data.startswith(b"\xff\xd8"):
        return False
    image = Image.open(BytesIO(data))
    return image.mode in ("RGB", "L") and not image.info.get("progressive")
