"""Provide our datasets to Ray Data as a data source."""

import logging
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any, Literal

import numpy as np

from dali_pipes.arguments.values import require_one_of
from dali_pipes.errors import BadSampleError, LoaderError
from dali_pipes.integrations.ray.cluster import require_ray
from dali_pipes.integrations.ray.consistency import (
    require_same_versions,
    this_worker,
    unpickled,
    versions,
)
from dali_pipes.integrations.ray.rows import Columns, find_columns
from readers import BadSample, IndexedDataset, Sample
from readers.describe import describe

Policy = Literal["raise", "skip"]

_Datasource: Any = require_ray("ray.data").Datasource
_LOG = logging.getLogger(f"gpu_aug.{__name__}")
# Samples that are read to find the columns and, if the data does not store them, the sizes. A rare field needs the argument `fields`.
_PROBED = 16
# Bytes of samples that are fetched at a time for one table. Ray Data joins tables to blocks, and splits larger ones.
_TABLE_BYTES = 8_000_000


class DatasetSource(_Datasource):  # type: ignore[misc]  # ray.data is not typed
    """A dataset for `ray.data.read_datasource`: one row per sample, in order, with its files as stored.

    The columns are

    - ``key`` (string) and ``index`` (int64), the position of the sample in the dataset;
    - ``label``: int64, or a list of float32 if labels are vectors; null if the sample has no label;
    - ``image`` (binary): the encoded image, whatever the name of its field. Samples with videos have ``video`` instead, and
      samples with several images have one column per image;
    - a binary column for every other field; null if a sample does not have the field. A field whose name is one of the
      columns above gets the suffix ``.bin``. A field that only repeats the class number, such as ``cls``, is left out.

    Rows are in order if ``DataContext.get_current().execution_options.preserve_order`` is set, otherwise in the order
    in which blocks are finished. Blocks have about ``target_max_block_size`` bytes (of that context); a sample is never
    split.

    Args:
        dataset: The result of `readers.open_dataset`, or a selection or mixture. It is pickled for the workers, which
            must be able to reach its paths and URLs.
        fields: The columns for fields, with names as above, including ``image``. None uses the fields of 16 samples
            spread over the dataset; if a field only appears in other samples, an error names it.
        on_bad_sample: If a sample cannot be read, "raise" raises, and "skip" logs a warning on the worker.

    Raises:
        LoaderError: The dataset is a stream, which has no indices, or an argument is not allowed.
        MissingPackageError: Ray is not installed.

    Example:
        >>> from dali_pipes.integrations.ray.data_source import DatasetSource
        >>> source = DatasetSource(open_dataset("photos/"))
        >>> source.schema.names
        ['key', 'index', 'label', 'image']
        >>> first, second = source.get_read_tasks(2)  # what ray.data.read_datasource(source) hands to its workers
        >>> [block.column("key").to_pylist()[:2] for block in second()]
        [['dog/000.jpg', 'dog/001.jpg']]
    """

    def __init__(
        self,
        dataset: IndexedDataset,
        *,
        fields: Sequence[str] | None = None,
        on_bad_sample: Policy = "raise",
    ) -> None:
        super().__init__()
        if not isinstance(dataset, IndexedDataset):
            raise LoaderError(
                f"DatasetSource needs a dataset of which samples are read by index, got {describe(dataset)}: open the data "
                'without format="stream", or make shards of it with gpu-aug pack'
            )
        require_one_of("on_bad_sample", on_bad_sample, ("raise", "skip"))
        self._dataset, self._on_bad_sample = dataset, on_bad_sample
        probed = dataset.fetch(
            np.unique(np.linspace(0, len(dataset) - 1, _PROBED).astype(np.int64))
        )
        samples = [sample for sample in probed if isinstance(sample, Sample)]
        self._columns = find_columns(dataset, samples, fields)
        stored = dataset.column("num_bytes")
        num_bytes = sum(len(data) for sample in samples for data in sample.fields.values())
        self._sizes = np.where(stored < 0, round(num_bytes / max(len(samples), 1)), stored)

    @property
    def schema(self) -> Any:
        """The Arrow schema of every block."""
        return self._columns.schema

    def estimate_inmemory_data_size(self) -> int:
        """Return the bytes of all samples, estimated from a few samples if the data does not store sizes."""
        return int(self._sizes.sum())

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: Any = None,  # noqa: ARG002 - Ray Data makes the blocks of its size
    ) -> list[Any]:
        """Return `parallelism` read tasks, each for a range of samples with about equal bytes; see Ray's `Datasource`."""
        data = require_ray("ray.data")
        metadata = require_ray("ray.data.block").BlockMetadata
        payload = _shared(self._dataset)
        tasks = []
        for begin, end in self._ranges(parallelism):
            size_bytes = int(self._sizes[begin:end].sum())
            rows_per_table = _TABLE_BYTES * (end - begin) // max(size_bytes, 1)
            read = _Read(
                payload,
                versions(),
                range(begin, end),
                self._columns,
                self._on_bad_sample,
                repr(self._dataset),
                rows_per_table=max(1, min(rows_per_table, per_task_row_limit or end)),
                max_rows=per_task_row_limit,
            )
            num_rows = None if self._on_bad_sample == "skip" else end - begin
            described = metadata(
                num_rows=num_rows, size_bytes=size_bytes, input_files=None, exec_stats=None
            )
            tasks.append(
                data.ReadTask(
                    read, described, schema=self.schema, per_task_row_limit=per_task_row_limit
                )
            )
        return tasks

    def _ranges(self, parallelism: int) -> Iterator[tuple[int, int]]:
        """Yield up to `parallelism` non-empty ranges of indices, (start, stop), half open, with about equal bytes."""
        count = max(1, min(parallelism, len(self._sizes)))
        # + 1, so that empty samples count, too.
        sums = np.concatenate([[0], np.cumsum(self._sizes + 1)])
        wanted = sums[-1] * np.arange(1, count) / count
        after = np.searchsorted(sums, wanted)
        bounds = after - (wanted - sums[after - 1] < sums[after] - wanted)  # picks the nearer bound
        return pairwise(np.unique([0, *bounds.tolist(), len(self._sizes)]).tolist())


# Cached, so that successive tasks of a worker open a dataset only once.
_open = lru_cache(maxsize=1)(unpickled)


@dataclass(frozen=True)
class _Read:
    """Reads a range of samples on a worker.

    Attributes:
        dataset: The pickled dataset, or its reference in Ray's object store.
        driver: Versions of the libraries in the driver process; see `versions`.
        indices: Indices of the samples.
        columns: Converts samples to rows.
        on_bad_sample: "raise" or "skip", see DatasetSource.
        name: Description of the dataset, for error messages.
        rows_per_table: Count of samples that are fetched at a time.
        max_rows: Largest count of rows to return; None returns all rows.
    """

    dataset: Any
    driver: dict[str, str]
    indices: range
    columns: Columns
    on_bad_sample: Policy
    name: str
    rows_per_table: int
    max_rows: int | None
    __name__ = "DatasetSource"  # Ray Data shows this name in its warnings

    def __call__(self) -> Iterator[Any]:
        """Read the samples, and yield them as Arrow tables."""
        require_same_versions(self.driver)
        payload = self.dataset
        if not isinstance(payload, bytes):
            payload = require_ray().get(payload)
        samples = islice(self._samples(_open(payload, self.name)), self.max_rows)
        while rows := list(islice(samples, self.rows_per_table)):
            yield self.columns.table(rows)

    def _samples(self, dataset: IndexedDataset) -> Iterator[Sample]:
        bad: list[BadSample] = []
        for start in range(0, len(self.indices), self.rows_per_table):
            for sample in dataset.fetch(self.indices[start : start + self.rows_per_table]):
                if isinstance(sample, Sample):
                    yield sample
                elif self.on_bad_sample == "raise":
                    raise BadSampleError(
                        f"{this_worker()} cannot read sample {sample.index} ({sample.key}) of {self.name}: {sample.reason}; "
                        'repair it, see that this machine reaches the data, or give on_bad_sample="skip"'
                    )
                else:
                    bad.append(sample)
        if bad:
            _LOG.warning(
                "%s skipped %d of the samples %d to %d of %s, the first of them %s (%s)",
                *(this_worker(), len(bad), self.indices[0], self.indices[-1], self.name),
                *(bad[0].key, bad[0].reason),
            )


def _shared(dataset: IndexedDataset) -> Any:
    """Return a dataset pickled once for all tasks: a reference in Ray's object store if this process is connected."""
    ray = require_ray()
    payload = pickle.dumps(dataset, protocol=pickle.HIGHEST_PROTOCOL)
    return ray.put(payload) if ray.is_initialized() else payload
