"""One measurement of reading: some threads fetch some samples for a while."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from readers import BadSample, Dataset, Sample
from readers.storage.traffic import Traffic, counted

_PAGE = 4096


@dataclass(slots=True)
class Reading:
    """What came.

    Attributes:
        samples: Samples that came.
        num_bytes: Bytes of all their fields.
        seconds: From the first request to the last answer.
        cpu_seconds: Seconds of cores that this process took meanwhile.
        rows: Which rows these were.
        fetches: Bytes and seconds of every fetch.
        traffic: What was asked of a remote store for it.
    """

    samples: int = 0
    num_bytes: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    rows: list[int] = field(default_factory=list)
    fetches: list[tuple[int, float]] = field(default_factory=list)
    traffic: Traffic = field(default_factory=Traffic)

    @property
    def surplus(self) -> float:
        """Bytes that a remote store gave, in whole blocks, for each byte of the samples; 1 where it gave no more."""
        return max(self.traffic.num_bytes / max(self.num_bytes, 1), 1.0)


def read_for(
    dataset: Dataset, rows: NDArray[np.int64], *, request: int, in_flight: int, seconds: float
) -> Reading:
    """Fetch rows once each, in requests of so many, so many at a time; end with the rows or after so many seconds.

    Every thread makes at least one request if there are rows for it.
    """
    found, lock, requests = Reading(), threading.Lock(), _requests(rows, request)
    began, cpu = time.perf_counter(), time.process_time()

    def work(first: Sequence[int]) -> None:
        asked = first
        while True:
            start = time.perf_counter()
            with counted(found.traffic):
                num_bytes = _touch(dataset.fetch(np.asarray(asked, np.int64)))
            end = time.perf_counter()
            with lock:
                found.samples += len(asked)
                found.num_bytes += num_bytes
                found.rows += asked
                found.fetches.append((num_bytes, end - start))
                found.seconds = max(found.seconds, end - began)
                if end - began >= seconds or not requests:
                    return
                asked = requests.pop()

    firsts = [requests.pop() for _ in range(min(in_flight, len(requests)))]
    with ThreadPoolExecutor(in_flight, thread_name_prefix="tune-read") as pool:
        list(pool.map(work, firsts))
    found.cpu_seconds = time.process_time() - cpu
    return found


def _requests(rows: NDArray[np.int64], request: int) -> list[list[int]]:
    """Whole requests; the first of the rows stand last, from where they are taken."""
    whole = len(rows) // request * request or len(rows)
    parts = [rows[start : start + request].tolist() for start in range(0, whole, request)]
    return parts[::-1]


def _touch(samples: Sequence[Sample | BadSample]) -> int:
    """Read a byte of every page, so that a view into a file costs what the file does; return the bytes of all."""
    num_bytes = 0
    for sample in samples:
        for payload in sample.fields.values() if isinstance(sample, Sample) else ():
            np.frombuffer(payload, np.uint8)[::_PAGE].sum()
            num_bytes += len(payload)
    return num_bytes
