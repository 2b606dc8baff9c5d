"""A user's own DALI pipeline as the decoder of a loader."""

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_pipes.decode.dali.driver import Driver, Inputs
from dali_pipes.errors import LoaderError
from dali_pipes.stages.data import Fetched

_NEXT = "give one made with fn.external_source(name=...) for encoded bytes, and one output"

_TAKEN: weakref.WeakSet[Any] = weakref.WeakSet()
"""Pipelines that were passed to `from_dali`. A second decoder of the same pipeline would take the outputs of the
first."""


class DaliDecoder(Driver):
    """A DALI pipeline that decodes pushed batches of encoded bytes to images; see `from_dali`.

    Attributes:
        batch_size: Size of the largest batch that the pipeline takes.
        device_id: Index of the GPU on which the pipeline returns images; None for images on the CPU.
    """

    def __init__(self, pipeline: Any, name: str, device_id: int | None) -> None:
        super().__init__(pipeline, int(pipeline.input_feed_count(name)))
        self.batch_size = int(pipeline.max_batch_size)
        self.device_id = device_id
        self._name, self._busy = name, False

    def require_fits(self, largest: int, *, clips: bool) -> None:
        """Raise if batches have more than the pipeline's `batch_size` images, or if the samples are clips.

        Raises:
            LoaderError: The pipeline cannot decode the loader's batches.
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
            LoaderError: Another loop uses the pipeline.
        """
        if self._busy:
            raise LoaderError(
                "this pipeline serves another loop; end that first (loader.close()), or make a pipeline for "
                "each loader"
            )
        self._busy = True

    def end(self) -> None:
        """Wait for the pushed batches, drop their outputs, and release the pipeline for other loops."""
        self.drain()
        self._busy = False

    def inputs(self, fetched: Fetched, rows: Sequence[int]) -> Inputs:
        """Return the pipeline's inputs for at least one row of a step; each row must have data."""
        return {self._name: [np.frombuffer(fetched.data[row] or b"", np.uint8) for row in rows]}


def from_dali(pipeline: Any) -> DaliDecoder:
    """Use a DALI pipeline as the decoder of a loader: ``Loader(dataset, recipe, decoder=from_dali(pipeline), ...)``.

    The pipeline needs exactly one input and one output. The input is an `fn.external_source` without a source; it gets
    encoded bytes, uint8 [num_bytes] on the CPU. The output is uint8 [height, width, 3] on the CPU or on the loader's
    GPU; sizes may differ between images.

    The recipe's crops are drawn for the output sizes. The loader controls the samples, their order, the random draws,
    resuming and the handling of bad samples, so the pipeline must not use random numbers. If masks, boxes or keypoints
    are read, the images must come out at their stored size, not rotated. A sample is bad if the pipeline refuses it. On
    a GPU the pipeline accepts many JPEGs that are damaged or truncated, which decoder="dali" refuses.

    Args:
        pipeline: A `nvidia.dali.Pipeline` that has not run; `from_dali` builds it. Its `batch_size` must be at least
            the loader's (somewhat more for a recipe that mixes samples). The decoder serves one loop at a time.

    Raises:
        LoaderError: The pipeline reads files, draws random numbers, has run, belongs to a decoder already, or has other
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
    """Return the name of the pipeline's only input."""
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
                f"the pipeline draws random numbers of its own ({kind}), which the state of a run does not include; leave "
                f"that to the recipe"
            )
    if len(inputs) != 1:
        named = ", ".join(map(repr, inputs)) or "none"
        raise LoaderError(f"the pipeline must have one input, but has {named}; {_NEXT}")
    return str(inputs[0])
