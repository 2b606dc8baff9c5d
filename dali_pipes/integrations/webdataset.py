"""Use a pipeline of the library webdataset as a stream: it reads, divides and shuffles; a Loader does the rest."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dali_pipes.errors import LoaderError
from dali_pipes.integrations.torch_items import ItemError, sample_of
from readers import BadSample, Sample
from readers.datasets.stream import Divide, Stream, checked_epoch
from readers.describe import describe
from readers.fingerprint import fingerprint_of
from readers.formats.tar.webdataset import label_of

_BYTES = bytes | bytearray | memoryview


def from_webdataset(
    dataset: Any,
    *,
    samples_per_epoch: int | None = None,
    classes: Sequence[str] = (),
    fingerprint: str | None = None,
) -> Stream:
    """Use a `webdataset.WebDataset`, or another pipeline of that library, in a Loader.

    The library reads the tar files, and divides and shuffles them as the pipeline says. A Loader with
    ``shuffle="none"`` keeps this order; with "block" it also shuffles in a buffer. Leave out stages that make batches
    or augment. Items may be encoded (as WebDataset returns them), decoded (``.decode("pil")``, ``.decode("rgb8")``), or
    pairs (``.to_tuple``).

    To resume, the pipeline is read again from the start of the epoch, which takes proportional time, and the key of the
    last sample is compared. The resume is exact if the pipeline returns the same order again: use ``WebDataset(urls,
    shardshuffle=100, detshuffle=True, seed=0)``, whose epoch the loader sets, and for several ranks
    ``nodesplitter=webdataset.split_by_node``. To resume from the start of a shard instead, open the tar files with
    ``readers.open_dataset(urls, format="stream")``.

    Args:
        dataset: A pipeline that yields samples one by one.
        samples_per_epoch: Count of samples of an epoch over all ranks; required with several ranks. If the pipeline has
            fewer, it is started again. None means one pass over the pipeline.
        classes: Name of each class number.
        fingerprint: A text that identifies this data in the states of runs; None uses the names of its shards.

    Raises:
        LoaderError: The argument is not a pipeline of webdataset, or its shards are unknown and no fingerprint is
            given.

    Example:
        >>> import webdataset
        >>> pipeline = webdataset.WebDataset("train-{000000..000003}.tar", shardshuffle=False)
        >>> stream = from_webdataset(pipeline, samples_per_epoch=40)
        >>> loader = Loader(stream, Recipe.imagenet_train(size=64), batch_size=8, shuffle="none")
        >>> len(loader), next(iter(loader)).keys[0]
        (5, 'train-000000.tar/0000')
    """
    if not hasattr(dataset, "__iter__") or not hasattr(dataset, "pipeline"):
        raise LoaderError(
            f"dataset={describe(dataset)} is no pipeline of webdataset: give a webdataset.WebDataset or DataPipeline"
        )
    if fingerprint is None:
        urls = getattr(dataset.pipeline[0], "urls", None) if dataset.pipeline else None
        if not isinstance(urls, list | tuple):
            raise LoaderError(
                f"the shards of this {type(dataset).__name__} are not known; give a fingerprint=, any text that another "
                "dataset would not have"
            )
        fingerprint = repr([str(url).rpartition("/")[2] for url in urls])
    return WebDatasetStream(dataset, checked_epoch(samples_per_epoch), tuple(classes), fingerprint)


class WebDatasetStream:
    """A pipeline of webdataset as a stream with a single shard on each rank; made by `from_webdataset`."""

    divides_itself = True
    num_shards = 1
    divide: Divide = "shards"

    def __init__(
        self,
        dataset: Any,
        samples_per_epoch: int | None,
        class_names: tuple[str, ...],
        fingerprint: str,
    ) -> None:
        self._dataset, self.samples_per_epoch = dataset, samples_per_epoch
        self.class_names = class_names
        self.fingerprint = fingerprint_of(f"webdataset {fingerprint}")

    def __repr__(self) -> str:
        """Return the class of the pipeline."""
        return f"WebDatasetStream({type(self._dataset).__name__})"

    def read_shard(self, number: int, epoch: int = 0) -> Iterator[Sample | BadSample]:
        """Yield the samples of one pass over the pipeline."""
        del number
        for stage in self._dataset.pipeline:
            if (
                type(getattr(stage, "epoch", None)) is int
            ):  # the library increases its epoch before each pass
                stage.epoch = epoch - 1
        for index, item in enumerate(self._dataset):
            yield _sample(item, index)


def _sample(item: Any, index: int) -> Sample | BadSample:
    key, entries = str(index), item
    if isinstance(item, Mapping):
        shard = str(item.get("__url__", "")).rpartition("/")[2]
        key = f"{f'{shard}/' if shard else ''}{item.get('__key__', index)}"
        entries = {str(name): value for name, value in item.items() if str(name)[:2] != "__"}
    try:
        if isinstance(item, Mapping) and all(isinstance(one, _BYTES) for one in entries.values()):
            return Sample(index, key, entries, label_of(entries))
        return sample_of(entries, index, key)
    except (ItemError, OSError, ValueError) as error:
        return BadSample(index, key, "read", str(error))
