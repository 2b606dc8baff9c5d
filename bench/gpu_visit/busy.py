"""How busy the video decoders of a GPU are while something is measured, as its driver says."""

import threading
from importlib import import_module
from statistics import mean
from types import TracebackType
from typing import Any, Self

import torch

_LOOK_SECONDS = 0.05


class Busy:
    """Looks at a GPU, from the beginning of a ``with`` block to its end.

    Args:
        device: Which one; of a CPU nothing is found.

    Attributes:
        found: Percent of the time that decoders and the rest of the GPU were at work, on average; or why
            it is not known.
    """

    def __init__(self, device: torch.device) -> None:
        self.found: dict[str, Any] = {}
        self._device = device
        self._done = threading.Event()
        self._looks: list[tuple[int, int]] = []
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        if self._device.type == "cuda":
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        if self._device.type == "cuda":
            self._thread.join()
        if self._looks:
            decoders, others = zip(*self._looks, strict=True)
            self.found["percent of NVDEC"] = round(mean(decoders))
            self.found["percent of NVDEC at most"] = max(decoders)
            self.found["percent of the GPU"] = round(mean(others))

    def _look(self) -> None:
        try:
            pynvml: Any = import_module("pynvml")
            pynvml.nvmlInit()
            handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{_uuid(self._device)}")
            while not self._done.wait(_LOOK_SECONDS):
                decoder, _ = pynvml.nvmlDeviceGetDecoderUtilization(handle)
                self._looks.append((decoder, pynvml.nvmlDeviceGetUtilizationRates(handle).gpu))
        except Exception as error:  # noqa: BLE001 - the speed is worth having without this
            self.found["percent of NVDEC"] = f"not known: {type(error).__name__}: {error}"


def _uuid(device: torch.device) -> str:
    return str(torch.cuda.get_device_properties(device).uuid)
