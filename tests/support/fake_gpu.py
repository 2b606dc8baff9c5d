"""A GPU that is not there: tensors say that they lie on "cuda", and the host must not wait for them.

Torch computes shapes, types and devices of fake tensors and refuses to mix devices. Nothing is computed.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

DEVICE = torch.device("cuda", 0)


class HostWaitError(Exception):
    """The host would wait for what is queued on the GPU."""


class _Watch(TorchDispatchMode):
    """Carries out what concerns the host alone, and refuses what would make it wait."""

    may_wait = False
    streams: Any = None  # see `fake_streams`

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let the host wait in the block, as it may where something is made once."""
        self.may_wait = True
        yield
        self.may_wait = False

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        leaves = tree_leaves((args, kwargs))
        on_host = not any(isinstance(leaf, FakeTensor) for leaf in leaves)
        if on_host and not any(_is_gpu(leaf) for leaf in leaves):
            with unset_fake_temporarily():
                return function(*args, **kwargs)
        name = "" if self.may_wait else function.name()
        if name.startswith("aten::_local_scalar_dense"):
            raise HostWaitError("a number is read from the GPU")
        if name.startswith("aten::_to_copy"):
            _check_copy(args[0].device, kwargs.get("device"), kwargs)
        elif name.startswith("aten::copy_"):
            waits = kwargs or {"non_blocking": args[2] if len(args) > 2 else False}
            _check_copy(args[1].device, args[0].device, waits)
        elif name.startswith("aten::index"):
            _check_indices(args)
        made = function(*args, **kwargs)
        if self.streams is not None and not self.may_wait:
            self._note(function, leaves, made)
        return made

    def _note(self, function: Any, leaves: list[Any], made: Any) -> None:
        """Tell the streams what is read and written, unless it is a view."""
        inputs, outputs = (
            [leaf for leaf in each if _on_gpu(leaf)] for each in (leaves, tree_leaves(made))
        )
        if outputs and not function.is_view:
            self.streams.launched(function.name(), inputs, outputs)
            if function._schema.is_mutable:
                for tensor in outputs:
                    self.streams.wrote(tensor)


@contextmanager
def fake_gpu() -> Iterator[_Watch]:
    """Let tensors on "cuda" be fake in this thread, and launch no kernel of Triton.

    What it gives has `waiting()`, for a block in which the host may wait.

    Raises:
        HostWaitError: In the block, where the host would wait.
        Exception: Torch's own, where devices are mixed, or shapes depend on values on the GPU.
    """
    empty, data_ptr = torch.empty, Tensor.data_ptr

    def pageable(*args: Any, pin_memory: bool = False, **kwargs: Any) -> Tensor:
        if not pin_memory:
            return empty(*args, **kwargs)
        with unset_fake_temporarily():
            return empty(*args, **kwargs)

    def address(tensor: Tensor) -> int:
        return 0 if isinstance(tensor, FakeTensor) else data_ptr(tensor)

    with (
        patch.object(Tensor, "pin_memory", lambda tensor: tensor),
        patch.object(Tensor, "data_ptr", address),
        patch.object(torch, "empty", pageable),
        patch.object(torch.cuda, "device_of", lambda _: nullcontext()),
        patch("gpu_aug.engines.fused.triton.kernels.run_pass", _Launched()),
        patch("gpu_aug.engines.fused.triton.kernels.sum_gray", _Launched()),
        FakeTensorMode(allow_non_fake_inputs=True),
        _Watch() as watch,
    ):
        yield watch


class _Launched:
    """Takes a launch."""

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        assert all(size > 0 for size in grid)
        return lambda *_args, **_kwargs: None


def _on_gpu(leaf: Any) -> bool:
    return isinstance(leaf, FakeTensor) and leaf.device.type == "cuda"


def _is_gpu(leaf: Any) -> bool:
    return isinstance(leaf, torch.device) and leaf.type == "cuda"


def _check_copy(source: torch.device, target: torch.device | None, kwargs: Any) -> None:
    """Refuse copies between host and GPU that end with a wait."""
    if target is None or source.type == target.type:
        return
    if target.type == "cpu" or not kwargs.get("non_blocking"):
        raise HostWaitError(f"a copy from {source.type} to {target.type} waits")


def _check_indices(args: Any) -> None:
    """Refuse indices on the host, which torch copies to the GPU and waits for."""
    indices = [leaf for leaf in tree_leaves(args[1:]) if isinstance(leaf, Tensor)]
    if args[0].device.type == "cuda" and any(i.device.type == "cpu" and i.dim() for i in indices):
        raise HostWaitError("indices are copied to the GPU")
