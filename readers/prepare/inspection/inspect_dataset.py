"""Inspect a dataset: report its fields, images and labels, and find samples that cannot be used."""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from readers.datasets.dataset import IndexedDataset
from readers.datasets.fetched import UnreadableLabelsError
from readers.datasets.inspected import Checks
from readers.formats.stream import TarStream
from readers.order.shuffle import Order
from readers.prepare.errors import PrepareError
from readers.prepare.inspection.doubled_keys import DoubledKeys
from readers.prepare.inspection.entries import Entry, look_of
from readers.prepare.inspection.findings import MOST_LISTED, Inspection
from readers.prepare.inspection.parts import InspectionParts, InspectionTask
from readers.prepare.job import ArrayTask, Executor, LocalExecutor
from readers.prepare.source import PlannedSource, open_source, planned_source
from readers.prepare.workers import Threads, checked_workers
from readers.sample import Dataset

# Samples that are inspected without `verify`: enough for percentiles within a few percent, after seconds.
_SAMPLES_LOOKED_AT = 2000
# Entries per task of a thread; few if they are decoded, so that all threads end at about the same time.
_CHUNK, _FEW = 64, 8


def inspect(
    source: str | Dataset | TarStream,
    *,
    verify: Checks | None = None,
    format: str | None = None,
    allow_pipe: bool = False,
    num_workers: int | None = None,
    executor: Executor | None = None,
    parts: str | Path | None = None,
    merge: bool = False,
    on_progress: Callable[[int, int | None], None] = lambda *_: None,
    **options: Any,
) -> Inspection:
    """Inspect a dataset, and return statistics of its contents and a list of its bad samples.

    By default, 2,000 samples are inspected, evenly spread over the dataset, or the first ones of a stream. With `verify`, all
    samples are inspected and decoded.

    Args:
        source: A source as for `readers.open_dataset`, ``pipe:COMMAND``, or a dataset.
        verify: Functions with which every image and frame of all samples is decoded; None decodes nothing.
        format: Name of the format, if it cannot be detected.
        allow_pipe: Whether the source may be ``pipe:COMMAND``, which runs the command.
        num_workers: Number of threads; all cores if None.
        executor: Carries out the inspection, which needs `verify`; threads of this process if None. The result does not
            depend on the executor, but that of an `ArrayTask` covers only the samples of this task.
        parts: A folder, or the URL of a prefix in an object store, in which the results of ranges of samples are stored,
            so that a second run continues from them. All tasks of an array job must be given the same `parts`.
        merge: Inspect nothing, and merge the results in `parts`.
        on_progress: Called with the number of samples that were inspected, and the number of all samples to inspect (None
            if unknown).
        options: ``split`` and options of the format, as for `readers.open_dataset`.

    Raises:
        PrepareError: The number of workers is less than 1; parts are missing or of another dataset; or a task failed.
        ReadersError: The source cannot be opened or read.

    Example:
        >>> from dali_pipes.decode.check import CHECKS
        >>> from readers.prepare import inspect
        >>> found = inspect("damaged/", verify=CHECKS)
        >>> found.num_bad, found.heights.percentile(50)
        (1, 96)
    """
    workers = checked_workers(num_workers)
    dataset = source
    if isinstance(dataset, str):
        dataset = open_source(dataset, format=format, allow_pipe=allow_pipe, **options)
    found = Inspection(dataset, verified=verify is not None)
    found.length = None if isinstance(dataset, TarStream) else len(dataset)
    if isinstance(dataset, IndexedDataset):
        _add_columns(found, dataset)
    if executor is None and parts is None and not merge:
        _look_here(found, verify, workers, on_progress)
    elif verify is None or isinstance(dataset, TarStream):
        raise PrepareError(
            "an inspection is divided into parts only with --verify, and only if samples can be read at random: leave out "
            "--parts, --on, --task and --merge"
        )
    else:
        given = source if isinstance(source, str) else dataset
        planned = planned_source(given, dataset, format, options)
        executor = executor or LocalExecutor(workers)
        _look_in_parts(found, planned, verify, executor, parts, merge, on_progress)
    _complete(found)
    return found


def _look_here(
    found: Inspection,
    verify: Checks | None,
    workers: int,
    on_progress: Callable[[int, int | None], None],
) -> None:
    """Inspect samples in threads of this process, and add the results to `found`."""
    dataset = found.dataset
    most = min(found.length or _SAMPLES_LOOKED_AT, _SAMPLES_LOOKED_AT)
    expected = most if verify is None else found.length
    look = look_of(dataset, verify)
    tasks = _tasks(dataset, expected, _CHUNK if verify is None else _FEW)
    digests = array("Q")
    with Threads(workers) as threads:
        for looks in threads.map(lambda task: [look(entry) for entry in task()], tasks):
            for one in looks:
                found.add(one, count_label=not found.all_labels)
                digests.append(one.digest)
            on_progress(found.num_looked_at, expected)
    if verify is not None:
        with DoubledKeys(len(digests)) as keys:
            keys.add(np.frombuffer(digests, np.uint64))
            found.num_doubled, found.doubled = keys.find(MOST_LISTED)
        _add_checks(found, dataset)


def _look_in_parts(
    found: Inspection,
    source: PlannedSource,
    verify: Checks,
    executor: Executor,
    folder: str | Path | None,
    merge: bool,
    on_progress: Callable[[int, int | None], None],
) -> None:
    """Inspect all samples in parts, and merge the results of the parts into `found`; see `inspect`.

    Raises:
        PrepareError: Parts are missing or of another dataset, or a task failed.
    """
    dataset = found.dataset
    assert not isinstance(dataset, TarStream)
    if folder is None and (merge or isinstance(executor, ArrayTask)):
        raise PrepareError(
            "tasks of an inspection need a folder for their results: give --parts FOLDER, the same for all and for --merge"
        )
    with ExitStack() as stack:
        folder = folder or stack.enter_context(TemporaryDirectory(prefix="gpuaug-"))
        parts = InspectionParts(folder, dataset)
        numbers: Sequence[int] = range(len(parts))
        if isinstance(executor, ArrayTask):
            numbers = executor.own(numbers)
        if not merge:
            missing, total = parts.missing(numbers), parts.num_samples(numbers)
            task = InspectionTask(source, parts.boundaries, verify, not found.all_labels)
            for _ in parts.make(task, executor, missing, total, on_progress):
                pass
            found.num_earlier = total - parts.num_samples(missing)
        parts.merge(found, numbers)
    found.verified = len(numbers) == len(parts)


def _complete(found: Inspection) -> None:
    """Set the length and the total size of the dataset in the result, if all samples were inspected."""
    if found.length is None and (found.verified or found.num_looked_at < _SAMPLES_LOOKED_AT):
        found.length = found.num_looked_at
    known = found.total_bytes is None and found.fields and not found.num_bad
    if found.length == found.num_looked_at and known:
        found.total_bytes = sum(spread.total for spread in found.fields.values())


Task = Callable[[], Iterable[Entry]]


def _tasks(dataset: Dataset | TarStream, count: int | None, chunk: int) -> Iterator[Task]:
    """Yield functions, each of which returns the next few samples to inspect.

    Args:
        dataset: The dataset.
        count: Number of samples to inspect; None inspects all.
        chunk: Number of samples that a function returns.
    """
    if isinstance(dataset, TarStream):
        entries = islice(dataset.iterate(), count)
        while some := list(islice(entries, chunk)):
            yield lambda some=some: some  # type: ignore[misc]
        return
    length = len(dataset)
    if count is None or count >= length:
        tasks = (np.arange(at, min(at + chunk, length)) for at in range(0, length, chunk))
    else:
        order = Order(length, seed=0)
        chosen = np.sort(order.indices(epoch=0, positions=np.arange(count)))
        tasks = (chosen[at : at + chunk] for at in range(0, count, chunk))
    for indices in tasks:
        yield lambda indices=indices: dataset.fetch(indices)  # type: ignore[misc]


def _add_columns(found: Inspection, dataset: IndexedDataset) -> None:
    try:
        labels = dataset.column("label")
    # Samples with unreadable labels are counted as bad when they are inspected.
    except UnreadableLabelsError as error:
        labels = error.labels[error.labels >= -1]
    sizes = dataset.column("num_bytes")
    numbers, counts = np.unique(labels, return_counts=True)
    found.labels = Counter(dict(zip(numbers.tolist(), counts.tolist(), strict=True)))
    found.all_labels = True
    if (sizes >= 0).all():
        found.total_bytes = int(sizes.sum())


def _add_checks(found: Inspection, dataset: Dataset | TarStream) -> None:
    """Add the samples whose stored checksums do not match, if the format has checksums."""
    if not isinstance(dataset, IndexedDataset):
        return
    known = {bad.index for bad in found.bad}
    for bad in dataset.verify():
        if bad.index not in known:
            found.add_bad(bad)
