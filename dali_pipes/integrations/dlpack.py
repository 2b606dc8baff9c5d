"""Convert batches to JAX and CuPy arrays that share the batch's memory by DLPack."""

from collections.abc import Callable
from typing import Any

import torch

from dali_pipes.batch import Batch
from dali_pipes.errors import LoaderError, import_optional

_NO_CUPY = (
    "to_cupy needs CuPy and ml_dtypes, which are not both installed: pip install 'gpu-aug[cupy12]' for CUDA 12, or "
    "'gpu-aug[cupy13]' for CUDA 13"
)


def to_jax(batch: Batch) -> dict[str, Any]:
    """Return a batch as JAX arrays on the device of its images.

    On a GPU, nothing is copied except as stated below. An array keeps the shared memory alive, even after the batch is
    deleted. JAX treats its arrays as constants, so do not write to the tensors of the batch afterwards.

    JAX allocates three quarters of a GPU's memory on first use; XLA_PYTHON_CLIENT_PREALLOCATE=false in the environment
    prevents that.

    Args:
        batch: B samples, as a Loader returns them.

    Returns:
        A dictionary:

        - "images": [B, H, W, 3] of the loader's dtype; clips [B, T, H, W, 3]. Copied with Execution(channels_last=False);
          on a CPU, JAX copies images that are not aligned to 64 bytes.
        - "labels": int32 [B], or float32 [B, num_classes] with a recipe that mixes samples; vectors as in the batch.
        - "valid": bool [B], copied to the device.
        - "views": if there are several, a list of arrays like "images", which is the first of them.
        - "masks", "boxes", "box_labels", "keypoints", "keypoint_labels": if the batch has them, with the same shapes.

        If JAX's `jax_enable_x64` is on, integers are int64 and not copied. The batch's `indices` and `keys` are for
        people and logs; they are not converted.

    Raises:
        MissingPackageError: JAX is not installed.
        LoaderError: The argument is not a batch, or its images are on a GPU and JAX sees none.

    Example:
        >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=8)
        >>> to_jax(loader.peek())["images"].shape
        (8, 64, 64, 3)
    """
    jax = import_optional(
        "jax", "to_jax needs JAX, which is not installed: pip install 'gpu-aug[jax]'"
    )
    _require_batch("to_jax", batch)
    _require_jax_device(batch.images.device)
    wide = jax.config.jax_enable_x64

    def array(tensor: torch.Tensor) -> Any:
        # JAX would convert with a warning, or wrap around.
        narrow = tensor.dtype == torch.int64 and not wide
        return jax.dlpack.from_dlpack(tensor.to(torch.int32) if narrow else tensor)

    return _arrays(batch, array)


def to_cupy(batch: Batch) -> dict[str, Any]:
    """Return a batch as CuPy arrays on the GPU of its images.

    Nothing is copied except as stated for `to_jax`. An array keeps the shared memory alive, even after the batch is
    deleted. It is ready for CuPy's current stream, and its memory is reused only after that stream has finished with
    it. For kernels on other streams, the caller must synchronise.

    Args:
        batch: B samples, as a Loader on a GPU returns them.

    Returns:
        A dictionary like that of `to_jax`, with int64 integers. "images" are [B, H, W, 3], copied with
        Execution(channels_last=False); "valid" is copied to the device.

    Raises:
        MissingPackageError: CuPy is not installed, or ml_dtypes, which CuPy needs for bfloat16.
        LoaderError: The argument is not a batch, or its images are not on a GPU.

    Example:
        >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=8, device="cuda")
        >>> to_cupy(loader.peek())["images"].shape
        (8, 64, 64, 3)
    """
    import_optional("ml_dtypes", _NO_CUPY)  # CuPy takes bfloat16 from it
    cupy = import_optional("cupy", _NO_CUPY)
    _require_batch("to_cupy", batch)
    device = batch.images.device
    if device.type != "cuda":
        raise LoaderError(
            f'to_cupy takes batches on a GPU, got images on {device}; give Loader(device="cuda"), or use '
            f"to_jax(batch), or batch.images and batch.labels as they are"
        )
    foreign: Any = torch.cuda.ExternalStream
    with cupy.cuda.Device(device.index):
        stream = foreign(cupy.cuda.get_current_stream().ptr, device=device)

        def array(tensor: torch.Tensor) -> Any:
            tensor.record_stream(stream)
            return cupy.from_dlpack(tensor)

        return _arrays(batch, array)


def _arrays(batch: Batch, to_array: Callable[[torch.Tensor], Any]) -> dict[str, Any]:
    """Return the tensors of a batch by name, converted by `to_array` after they were made row-major."""
    views = [view.movedim(-3, -1).contiguous() for view in batch.views]
    fields: dict[str, torch.Tensor | list[torch.Tensor] | None] = {
        "images": views[0],
        "views": views if len(views) > 1 else None,
        "labels": batch.labels,
        "valid": batch.valid.to(batch.images.device),
        "masks": batch.masks,
        "boxes": batch.boxes,
        "box_labels": batch.box_labels,
        "keypoints": batch.keypoints,
        "keypoint_labels": batch.keypoint_labels,
    }
    arrays: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, list):
            arrays[name] = [to_array(tensor.contiguous()) for tensor in value]
        elif value is not None:
            arrays[name] = to_array(value.contiguous())
    return arrays


def _require_batch(name: str, batch: Batch) -> None:
    """Raise if the argument is not a Batch but, for instance, a tensor or a list of batches."""
    if not isinstance(batch, Batch):
        raise LoaderError(
            f"{name} takes a Batch as a Loader returns it, got {type(batch).__name__}; give it the entire batch, "
            "several one by one"
        )


def _require_jax_device(device: torch.device) -> None:
    """Raise if JAX does not have this device."""
    import jax

    try:
        jax.local_devices(backend="gpu" if device.type == "cuda" else device.type)
    except RuntimeError as error:
        raise LoaderError(
            f"the batch is on {device}, but JAX has no such device, only {jax.local_devices()}; install "
            f"JAX for it, as in pip install 'jax[cuda12]', or give Loader(device=\"cpu\")"
        ) from error
