"""Ways to read shuffled batches of encoded samples from storage: ours, and those of the formats' own libraries.

A way is a function of a Task that yields batches endlessly, each a list of payloads (bytes or views) that have arrived
in this process.

``python -m bench.reading.ways WAY SOURCE BATCH_SIZE THREADS`` is the process of one reader. Every line of its input is
JSON: {"seconds", "discard", "items_max"}, the arguments of `bench.timing.take_turn`. It answers with a line of JSON:
the fields of a `bench.timing.Turn`.
"""

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from bench.baselines.peers.far import answer_questions
from bench.compare.threads import results_ahead
from bench.timing import take_turn

Payload = bytes | memoryview
Batch = list[Payload]

_NUM_AHEAD = 2  # batches per thread or worker process


@dataclass(frozen=True)
class Task:
    """The task of a reader: what to read, and how.

    Attributes:
        source: The copy of the data in one format: a folder or a file.
        batch_size: Samples per batch.
        num_threads: Count of threads or worker processes.
        seed: Seed of the order.
    """

    source: Path
    batch_size: int
    num_threads: int
    seed: int


def touch(batch: Batch) -> Batch:
    """Read a byte of every page of a batch, so that lazily mapped data is really read; return the batch."""
    for payload in batch:
        np.frombuffer(payload, np.uint8)[::4096].sum()
    return batch


def ours(task: Task) -> Iterator[Batch]:
    """Yield batches read with our own readers: `open_dataset`, an order, and `fetch` in threads."""
    from readers import Order, Sample, open_dataset

    dataset = open_dataset(task.source)
    order = Order(len(dataset), seed=task.seed)

    def fetch(positions: Any) -> Batch:
        epoch = int(positions[0]) // len(dataset)
        fetched = dataset.fetch(order.indices(epoch, positions % len(dataset)))
        images = [entry.image for entry in fetched if isinstance(entry, Sample)]
        return touch([image for image in images if image is not None])

    batches_per_epoch = len(dataset) // task.batch_size
    starts = (
        epoch * len(dataset) + number * task.batch_size
        for epoch in count()
        for number in range(batches_per_epoch)
    )
    asked = (np.arange(start, start + task.batch_size) for start in starts)
    yield from results_ahead(fetch, asked, task.num_threads, _NUM_AHEAD * task.num_threads)


def torch_files(task: Task) -> Iterator[Batch]:
    """Read files with torch's DataLoader, in worker processes."""
    from torch.utils.data import DataLoader

    paths = sorted(task.source.rglob("*.*"))
    options = {"shuffle": True, "collate_fn": _contents, "prefetch_factor": _NUM_AHEAD}
    yield from _epochs(DataLoader, paths, task, **options)


def _contents(paths: Sequence[Path]) -> Batch:
    """Return the contents of the files of a batch; a worker process calls this function."""
    return [path.read_bytes() for path in paths]


def webdataset(task: Task) -> Iterator[Batch]:
    """Yield batches read with wds.WebDataset and WebLoader, shards shuffled, with a buffer of 1000."""
    import webdataset as wds

    shards = sorted(str(path) for path in task.source.glob("*.tar"))
    dataset = (
        wds.WebDataset(shards, resampled=True, nodesplitter=wds.split_by_node)
        .shuffle(1000)
        .map(_image_of)
        .batched(task.batch_size, collation_fn=list, partial=False)
    )
    loader: Any = wds.WebLoader(
        dataset, batch_size=None, num_workers=task.num_threads, prefetch_factor=_NUM_AHEAD
    )
    for batch in loader:
        yield touch(batch)


def _image_of(sample: dict[str, bytes]) -> bytes:
    return sample["jpg"]


def pyarrow_take(task: Task) -> Iterator[Batch]:
    """Yield batches read with pyarrow.dataset(...).take(indices, columns), in pyarrow's own threads."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    pa.set_cpu_count(max(1, task.num_threads))
    dataset = ds.dataset(task.source, format="parquet")
    for indices in _shuffled(dataset.count_rows(), task):
        column = dataset.take(indices, columns=["image"]).column("image")
        yield touch([value.as_buffer() for chunk in column.chunks for value in chunk])


def hf_datasets(task: Task) -> Iterator[Batch]:
    """Yield batches read with datasets.load_from_disk(...)[indices], with undecoded images."""
    import datasets

    dataset = datasets.load_from_disk(str(task.source))
    for indices in _shuffled(len(dataset), task):
        yield touch([image["bytes"] for image in dataset[indices]["image"]])


def lmdb_get(task: Task) -> Iterator[Batch]:
    """Yield batches read with lmdb: one transaction per batch, one get per key."""
    import lmdb

    found = lmdb.open(str(task.source), readonly=True, lock=False, readahead=False)
    with found.begin() as transaction:
        keys = list(transaction.cursor().iternext(values=False))
    for indices in _shuffled(len(keys), task):
        with found.begin() as transaction:
            yield touch([transaction.get(keys[index], b"") for index in indices])


def h5py_index(task: Task) -> Iterator[Batch]:
    """Yield batches read with h5py: dataset[index] per sample."""
    import h5py

    with h5py.File(task.source, "r") as file:
        images = file["image"]
        for indices in _shuffled(len(images), task):
            yield touch([images[index].tobytes() for index in indices])


def tfrecord_loader(task: Task) -> Iterator[Batch]:
    """Yield batches read with tfrecord.tfrecord_loader over the files, records from a shuffle queue of 1000."""
    import tfrecord

    shuffle = random.Random(task.seed)
    queue: list[bytes] = []
    batch: Batch = []
    while True:
        for path in sorted(task.source.glob("*.tfrecord")):
            loader = tfrecord.tfrecord_loader(str(path), None, {"image": "byte"})
            for record in loader:
                queue.append(bytes(record["image"]))
                if len(queue) < 1000:
                    continue
                pick = shuffle.randrange(len(queue))
                queue[pick], queue[-1] = queue[-1], queue[pick]
                batch.append(queue.pop())
                if len(batch) == task.batch_size:
                    yield touch(batch)
                    batch = []


def array_record(task: Task) -> Iterator[Batch]:
    """Yield batches read with ArrayRecordDataSource.__getitems__, in its own threads; records are the images."""
    from array_record.python.array_record_data_source import ArrayRecordDataSource

    source = ArrayRecordDataSource(sorted(map(str, task.source.glob("*.array_record"))))
    for indices in _shuffled(len(source), task):
        yield touch(source.__getitems__(indices))


def grain_array_record(task: Task) -> Iterator[Batch]:
    """Yield batches read with grain.MapDataset over ArrayRecord, shuffled, in threads."""
    import grain

    source = grain.sources.ArrayRecordDataSource(
        sorted(map(str, task.source.glob("*.array_record")))
    )
    dataset = (
        grain.MapDataset.source(source)
        .seed(task.seed)
        .shuffle()
        .repeat()
        .batch(task.batch_size, drop_remainder=True, batch_fn=list)
        .to_iter_dataset(
            grain.ReadOptions(
                num_threads=task.num_threads,
                prefetch_buffer_size=_NUM_AHEAD * task.num_threads,  # the default is 500 batches
            )
        )
    )
    for batch in dataset:
        yield touch(batch)


def mosaic(task: Task) -> Iterator[Batch]:
    """Yield batches read with streaming.StreamingDataset (py1e) in torch's DataLoader, in worker processes."""
    from streaming import StreamingDataset
    from torch.utils.data import DataLoader

    dataset = StreamingDataset(
        local=str(task.source), shuffle=True, batch_size=task.batch_size, num_canonical_nodes=1
    )
    yield from _epochs(DataLoader, dataset, task, collate_fn=_images)


def _images(samples: Sequence[dict[str, Any]]) -> Batch:
    return [sample["image"] for sample in samples]


def litdata(task: Task) -> Iterator[Batch]:
    """Yield batches read with litdata.StreamingDataset (local chunks made by optimize), in worker processes."""
    import litdata as ld

    dataset = ld.StreamingDataset(str(task.source), shuffle=True, drop_last=True, seed=task.seed)
    yield from _epochs(ld.StreamingDataLoader, dataset, task, collate_fn=_images)


def _epochs(make_loader: Any, dataset: Any, task: Task, **options: Any) -> Iterator[Batch]:
    """Yield the batches of a DataLoader, or of a class with the same arguments, epoch after epoch."""
    options |= {"batch_size": task.batch_size, "num_workers": task.num_threads, "drop_last": True}
    while True:
        for batch in make_loader(dataset, **options):
            yield touch(batch)


def _shuffled(length: int, task: Task) -> Iterator[list[int]]:
    shuffle = random.Random(task.seed)
    while True:
        order = shuffle.sample(range(length), length)
        for start in range(0, length - task.batch_size + 1, task.batch_size):
            yield order[start : start + task.batch_size]


WAYS: dict[str, Callable[[Task], Iterator[Batch]]] = {
    way.__name__: way
    for way in (
        ours,
        torch_files,
        webdataset,
        pyarrow_take,
        hf_datasets,
        lmdb_get,
        h5py_index,
        tfrecord_loader,
        array_record,
        grain_array_record,
        mosaic,
        litdata,
    )
}


def main(way: str, source: str, batch_size: str, num_threads: str) -> None:
    """Read in one way for as long as each request says, answer it, and continue until the input ends."""
    batches = WAYS[way](Task(Path(source), int(batch_size), int(num_threads), seed=0))

    def answer(asked: dict[str, Any]) -> dict[str, Any]:
        sizes: list[int] = []
        turn = take_turn(
            partial(next, batches), work=lambda batch: sizes.extend(map(len, batch)), **asked
        )
        return {**asdict(turn), "num_bytes": sum(sizes)}

    answer_questions(answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
