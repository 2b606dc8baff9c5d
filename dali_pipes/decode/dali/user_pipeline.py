"""A user's own DALI pipeline as the decode stage of a loader."""

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_pipes.decode.dali.driver import Driver, Inputs
from dali_pipes.errors import LoaderError
from dali_pipes.stages.data import Fetched

_NEXT = "give one made with fn.external_source(name=...) for encoded bytes, and one output"

_TAKEN: weakref.WeakSet[Any] = weakref.WeakSet()
"""Pipelines that `from_dali` was given: two decoders would take each other's outputs."""


class DaliDecoder(Driver):
    """A pipeline that turns encoded bytes into images, and gets batches pushed; see `from_dali`.

    Attributes:
        batch_size: The largest batch that it takes.
        device_id: The GPU on which its images are; None for images on the CPU.
    """

    def __init__(self, pipeline: Any, name: str, device_id: int | None) -> None:
        super().__init__(pipeline, int(pipeline.input_feed_count(name)))
        self.batch_size = int(pipeline.max_batch_size)
        self.device_id = device_id
        self._name, self._busy = name, False

    def require_fits(self, largest: int, *, clips: bool) -> None:
        """Refuse batches of more than `largest` images, and clips.

        Raises:
            LoaderError: The loader's batches do not go through the pipeline.
        """
        if clips:
            raise LoaderError(
                "a pipeline of from_dali decodes images, not clips; use another decoder"
            )
        if largest > self.batch_size:
            raise LoaderError(
                f"the pipeline was made with batch_size={self.batch_size}, but the loader works on up to "
                f"{largest} images at once; make the pipeline with batch_size={largest}"
            )

    def begin(self) -> None:
        """Reserve the pipeline for a loop.

        Raises:
            LoaderError: Another loop has it.
        """
        if self._busy:
            raise LoaderError(
                "this pipeline serves another loop; end that first (loader.close()), or make a pipeline for "
                "each loader"
            )
        self._busy = True

    def end(self) -> None:
        """Wait for the pushed batches and drop them; other loops may use the pipeline."""
        self.drain()
        self._busy = False

    def inputs(self, fetched: Fetched, rows: Sequence[int]) -> Inputs:
        """Return the inputs for some rows of a step, all of which have data, at least one."""
        return {self._name: [np.frombuffer(fetched.data[row] or b"", np.uint8) for row in rows]}


def from_dali(pipeline: Any) -> DaliDecoder:
    """Make a DALI pipeline the decoder of a loader: ``Loader(dataset, recipe, decoder=from_dali(pipeline), ...)``.

    The pipeline has one input, `fn.external_source` without a source, which gets encoded bytes, uint8
    [num_bytes] on the CPU; and one output, uint8 [height, width, 3] on the CPU or on the loader's GPU, of any
    size, which may differ between images. The recipe's crops are drawn from the sizes that come out. Samples,
    order, draws, resuming and what happens to bad samples are the loader's, so nothing in the pipeline may draw
    random numbers. Samples whose masks, boxes or keypoints are wanted must come out at the size they are stored
    with, not rotated. Bad is what the pipeline refuses: on a GPU it accepts many JPEGs that are damaged or cut short,
    which decoder="dali" does not.

    Args:
        pipeline: A `nvidia.dali.Pipeline` that has not run; it is built here. Its `batch_size` is at least the
            loader's (with a recipe that mixes samples, somewhat more). It becomes one decoder, which serves one
            loop at a time.

    Raises:
        LoaderError: A pipeline that reads or draws by itself, has run, is a decoder already, or has other
            inputs or outputs.

    Example:
        >>> from nvidia.dali import fn, pipeline_def, types
        >>> @pipeline_def(batch_size=8, num_threads=1, device_id=None)
        ... def decode():
        ...     return fn.decoders.image(fn.external_source(name="encoded", dtype=types.UINT8, ndim=1))
        >>> photos, recipe = open_dataset("photos/"), Recipe.imagenet_train(size=64)
        >>> loader = Loader(photos, recipe, batch_size=8, device="cpu", decoder=from_dali(decode()))
        >>> loader.peek().images.shape
        torch.Size([8, 3, 64, 64])
    """
    if not hasattr(pipeline, "share_outputs"):
        raise LoaderError(f"{pipeline!r} is not a pipeline of DALI; {_NEXT}")
    if pipeline in _TAKEN:
        raise LoaderError(
            "the pipeline is a decoder already; give what from_dali returned to each loader that loops in turn, or "
            "make a pipeline for each"
        )
    if not pipeline.exec_dynamic:
        raise LoaderError(
            "the pipeline does not use DALI's default executor, and the others end with the first bad image; "
            "leave exec_dynamic, exec_async and exec_pipelined out"
        )
    pipeline.build()
    if pipeline._ops is None:
        raise LoaderError(
            "a pipeline that was deserialized does not tell what it does; give the one that was serialized"
        )
    if not pipeline._first_iter:
        raise LoaderError(
            "the pipeline has run already, and batches may be left in it; make a new one"
        )
    readers = ", ".join(pipeline.reader_meta())
    if readers:
        raise LoaderError(
            f"the pipeline reads by itself ({readers}), but the loader reads its dataset; {_NEXT}"
        )
    name = _input_of(pipeline)
    if pipeline.num_outputs != 1:
        raise LoaderError(
            f"the pipeline has {pipeline.num_outputs} outputs, but only images are taken, labels come from "
            f"the dataset; {_NEXT}"
        )
    ((_, device),) = pipeline._names_and_devices
    _TAKEN.add(pipeline)
    return DaliDecoder(pipeline, name, pipeline.device_id if device == "gpu" else None)


def _input_of(pipeline: Any) -> str:
    """Return the name of the only input."""
    inputs = []
    for instance in pipeline._ops:
        operator = instance._op
        kind = type(operator).__name__
        if kind == "ExternalSource":
            if operator._callback is not None or instance._callback is not None:
                raise LoaderError(
                    f"the input {instance.name!r} has a source, but the loader feeds it; leave source out"
                )
            inputs.append(instance.name)
        elif operator.schema.HasRandomSeedArg():
            raise LoaderError(
                f"the pipeline draws random numbers of its own ({kind}), which no state of a run holds; leave "
                f"that to the recipe"
            )
    if len(inputs) != 1:
        named = ", ".join(map(repr, inputs)) or "none"
        raise LoaderError(f"the pipeline must have one input, but has {named}; {_NEXT}")
    return str(inputs[0])
