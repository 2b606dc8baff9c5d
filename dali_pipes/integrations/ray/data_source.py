"""Datasets of this package as a source of Ray Data."""

import logging
import pickle
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from dali_pipes.arguments.values import require_one_of
from dali_pipes.errors import BadSampleError, ClusterError, LoaderError
from dali_pipes.integrations.ray.columns import Columns, find_columns
from dali_pipes.integrations.ray.connect import require_ray
from dali_pipes.integrations.ray.versions import require_same, versions
from readers import BadSample, IndexedDataset, Sample
from readers.describe import describe

Policy = Literal["raise", "skip"]

_Datasource: Any = require_ray("ray.data").Datasource
_LOG = logging.getLogger(__name__)
_PROBED = (
    16  # samples that the columns and, where the data does not tell them, the sizes are taken from
)
_FETCHED_BYTES = 8_000_000  # read at a time, so that a block is not much larger than it is to be
_BLOCK_BYTES = 128 << 20  # where Ray Data sets no limit


class DatasetSource(_Datasource):  # type: ignore[misc]  # ray.data is not typed
    """A dataset for `ray.data.read_datasource`: a row for each sample, in order, with its files as they are stored.

    The columns are

    - ``key`` (string) and ``index`` (int64), the sample's place in the dataset;
    - ``label``: int64, or a list of float32 where labels are vectors; null where there is none;
    - ``image`` (binary): the encoded image, whatever its field is called. Samples with videos have ``video``, and samples
      with several images have a column for each instead;
    - a binary column for every other field, null where a sample has no such field. One that is called as those above gets
      ``.bin`` behind its name, and one that only repeats the class number, such as ``cls``, is left out.

    Ray Data gives the rows in order where ``DataContext.get_current().execution_options.preserve_order`` is set, else as
    blocks are done. Blocks hold about ``target_max_block_size`` bytes of that context; a sample is never divided.

    Args:
        dataset: What `readers.open_dataset` returns, or a selection or mixture of such. It goes to the workers as paths
            and URLs, which they must be able to reach, in a pickle.
        fields: The columns for fields: names as above, ``image`` among them. None takes those of 16 samples from all over
            the dataset; a field that turns up only later is an error then, which tells its name.
        on_bad_sample: What happens where a sample cannot be read: "raise", or "skip", which logs a warning on the worker.

    Raises:
        LoaderError: It is a stream, which has no indices, or no dataset, or an argument is wrong.
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
        sound = [sample for sample in probed if isinstance(sample, Sample)]
        self._columns = find_columns(dataset, sound, fields)
        told = dataset.column("num_bytes")
        mean_bytes = round(sum(map(_num_bytes, sound)) / max(len(sound), 1))
        self._sizes = np.where(told < 0, mean_bytes, told)

    @property
    def schema(self) -> Any:
        """The Arrow schema of every block."""
        return self._columns.schema

    def estimate_inmemory_data_size(self) -> int:
        """Bytes of all samples, as far as the data tells them without reading, else going by a few."""
        return int(self._sizes.sum())

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: Any = None,
    ) -> list[Any]:
        """Divide the samples into ranges of about as many bytes, a task for each; see Ray's `Datasource`."""
        data = require_ray("ray.data")
        metadata = require_ray("ray.data.block").BlockMetadata
        limit = getattr(data_context, "target_max_block_size", None) or _BLOCK_BYTES
        payload = _shared(self._dataset)
        tasks = []
        for begin, end in self._ranges(parallelism):
            size_bytes = int(self._sizes[begin:end].sum())
            piece = _FETCHED_BYTES * (end - begin) // max(size_bytes, 1)
            piece = max(1, min(end - begin, piece, per_task_row_limit or end))
            read = _Read(
                payload,
                versions(),
                range(begin, end),
                self._columns,
                self._on_bad_sample,
                repr(self._dataset),
                block_bytes=limit,
                piece=piece,
                most_rows=per_task_row_limit,
            )
            num_rows = None if self._on_bad_sample == "skip" else end - begin
            told = metadata(
                num_rows=num_rows, size_bytes=size_bytes, input_files=None, exec_stats=None
            )
            tasks.append(
                data.ReadTask(read, told, schema=self.schema, per_task_row_limit=per_task_row_limit)
            )
        return tasks

    def _ranges(self, parallelism: int) -> Iterator[tuple[int, int]]:
        """Ranges of indices that hold about as many bytes each, none of them empty."""
        count = max(1, min(parallelism, len(self._sizes)))
        sums = np.concatenate([[0], np.cumsum(self._sizes + 1)])  # so that empty samples count
        wanted = sums[-1] * np.arange(1, count) / count
        after = np.searchsorted(sums, wanted)
        bounds = after - (wanted - sums[after - 1] < sums[after] - wanted)  # the nearer one
        return pairwise(np.unique([0, *bounds.tolist(), len(self._sizes)]).tolist())


@dataclass(frozen=True)
class _Read:
    """Reads a range of samples, on a worker.

    Attributes:
        dataset: The pickled dataset, or where it lies in Ray's object store.
        driver: The driver's versions.
        indices: The samples.
        columns: What becomes of them.
        on_bad_sample: See DatasetSource.
        name: Of the dataset, for people.
        block_bytes: A block ends when it holds as much.
        piece: How many samples are read at a time.
        most_rows: How many are wanted; all when None.
    """

    dataset: Any
    driver: dict[str, str]
    indices: range
    columns: Columns
    on_bad_sample: Policy
    name: str
    block_bytes: int
    piece: int
    most_rows: int | None
    __name__ = "DatasetSource"  # Ray Data asks for it when it warns

    def __call__(self) -> Iterator[Any]:
        """Give the blocks, tables of Arrow."""
        require_same(self.driver)
        dataset = self._opened()
        rows: list[Sample] = []
        num_bytes, left = 0, len(self.indices) if self.most_rows is None else self.most_rows
        for sample in self._samples(dataset):
            rows.append(sample)
            num_bytes, left = num_bytes + _num_bytes(sample), left - 1
            if num_bytes >= self.block_bytes or left == 0:
                yield self.columns.table(rows)
                rows, num_bytes = [], 0
            if left == 0:
                return
        if rows:
            yield self.columns.table(rows)

    def _samples(self, dataset: IndexedDataset) -> Iterator[Sample]:
        bad: list[BadSample] = []
        for start in range(0, len(self.indices), self.piece):
            for sample in dataset.fetch(self.indices[start : start + self.piece]):
                if isinstance(sample, Sample):
                    yield sample
                elif self.on_bad_sample == "raise":
                    raise BadSampleError(
                        f"{_worker()} cannot read sample {sample.index} ({sample.key}) of {self.name}: {sample.reason}; "
                        'repair it, see that this machine reaches the data, or give on_bad_sample="skip"'
                    )
                else:
                    bad.append(sample)
        if bad:
            _LOG.warning(
                "%s skipped %d of the samples %d to %d of %s, the first of them %s (%s)",
                *(_worker(), len(bad), self.indices[0], self.indices[-1], self.name),
                *(bad[0].key, bad[0].reason),
            )

    def _opened(self) -> IndexedDataset:
        payload = self.dataset
        if not isinstance(payload, bytes):
            payload = require_ray().get(payload)
        try:
            return _unpickled(payload)
        except Exception as error:
            raise ClusterError(
                f"{_worker()} cannot open {self.name} ({error}): give paths or URLs that all machines reach, with the "
                "credentials for them"
            ) from error


def _shared(dataset: IndexedDataset) -> Any:
    """Pickle a dataset once for all tasks, into the object store where this process has one."""
    ray = require_ray()
    payload = pickle.dumps(dataset, protocol=pickle.HIGHEST_PROTOCOL)
    return ray.put(payload) if ray.is_initialized() else payload


@lru_cache(maxsize=1)
def _unpickled(payload: bytes) -> IndexedDataset:
    """The dataset, opened once for successive tasks of a worker."""
    dataset: IndexedDataset = pickle.loads(payload)  # from our own driver
    return dataset


def _worker() -> str:
    return f"the worker on {platform.node()}"


def _num_bytes(sample: Sample) -> int:
    return sum(map(len, sample.fields.values()))
