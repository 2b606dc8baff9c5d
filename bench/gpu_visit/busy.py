"""How busy the decoders of a GPU are while something is measured, as its driver says."""

import threading
import time
from collections.abc import Callable
from statistics import mean
from types import TracebackType
from typing import Any, Self

import torch

from bench.gpu_visit.nvml import Meter, NvmlError

_LOOK_SECONDS = 0.05


class Busy:
    """Looks at a GPU, from the beginning of a ``with`` block to its end.

    The driver averages over some time that has passed, a sixth of a second or so; what it says before that
    much of the block is over counts only where the block is shorter.

    Args:
        device: Which one; of a CPU nothing is found.
        open_meter: Makes what is looked at out of the GPU's UUID.

    Attributes:
        found: Percent of the time that NVDEC, the JPEG engine and the rest of the GPU were at work: on
            average, and "at most" the highest; or why that is not known.
    """

    def __init__(self, device: torch.device, open_meter: Callable[[str], Any] = Meter) -> None:
        self.found: dict[str, Any] = {}
        self._device = device
        self._open_meter = open_meter
        self._done = threading.Event()
        self._looks: dict[str, list[tuple[int, bool]]] = {}
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
        for name, looks in self._looks.items():
            settled = [percent for percent, is_settled in looks if is_settled]
            percents = settled or [looks[-1][0]]
            self.found[f"percent of {name}"] = round(mean(percents))
            self.found[f"percent of {name} at most"] = max(percents)

    def _look(self) -> None:
        try:
            readers = self._open_meter(_uuid(self._device)).readers()
        except Exception as error:  # noqa: BLE001 - the speed is worth having without this
            self.found["percent of the GPU"] = f"not known: {type(error).__name__}: {error}"
            return
        began = time.perf_counter()
        while not self._done.wait(_LOOK_SECONDS):
            for name, read in list(readers.items()):
                try:
                    percent, seconds = read()
                except NvmlError as error:
                    self.found[f"percent of {name}"] = f"not known: {error}"
                    del readers[name]
                else:
                    is_settled = time.perf_counter() - began >= seconds
                    self._looks.setdefault(name, []).append((percent, is_settled))


def _uuid(device: torch.device) -> str:
    return str(torch.cuda.get_device_properties(device).uuid)
