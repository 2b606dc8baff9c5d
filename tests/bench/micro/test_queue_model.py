"""The model of threads that share the interpreter lock, against what was measured on 16 and on 2 cores."""

import pytest

from bench.micro.queue_model import Work, predict_rate

CORES = 12.7
"""Gain of compiled code from the 16 cores of the H100's host, as measured there."""


def cpu_fused(rows: int, seconds: float) -> Work:
    """cpu+fused as measured with the lock's clock on a folder: the parts of a batch have so many rows.

    Args:
        rows: Of a part that a thread takes at once.
        seconds: CPU time of an image in parts of 32 rows, which depends on the photographs.
    """
    free = seconds - _held(32)
    return Work(free, _held(rows), 10 + 48 / rows)


def _held(rows: int) -> float:
    return 70e-6 + 2.04e-3 / rows


MEASURED = [
    # cores, CPU time of an image, threads, rows of a part, least and most images per second of cpu+fused
    *[
        (CORES, 1 / 535, *one)
        for one in ((1, 32, 535, 535), (4, 32, 1923, 1923), (8, 16, 3245, 3245))
    ],
    (CORES, 1 / 535, 16, 8, 1778, 2155),
    (CORES / 4, 1 / 535, 4, 32, 1750, 1750),  # each of four processes, with a lock of its own
    # On two cores, threads get in each other's way at the cores as well; 950 images/s are those of both without a lock.
    *[(2, 2 / 950, *one) for one in ((2, 32, 870, 870), (4, 32, 986, 986), (16, 8, 753, 753))],
    *[(2, 2 / 950, *one) for one in ((2, 32, 810, 970), (16, 4, 407, 610), (16, 32, 891, 891))],
]


@pytest.mark.parametrize(("cores", "seconds", "threads", "rows", "least", "most"), MEASURED)
def test_rates_are_those_measured(
    cores: float, seconds: float, threads: int, rows: int, least: float, most: float
) -> None:
    """Within 20 %; none was fitted but that of 16 threads on 16 cores."""
    rate = predict_rate(cpu_fused(rows, seconds), num_threads=threads, cores=cores)

    assert 0.8 * least < rate < 1.2 * most


@pytest.mark.parametrize("threads", [2, 8, 16])
def test_decoder_cuda_is_bound_by_the_lock(threads: int) -> None:
    """Cuda+fused gave 6,500 to 8,900 with any number of threads; the loop's thread wants the lock, too."""
    rate = predict_rate(Work(50e-6, 42e-6, 7.7), num_threads=threads + 1, cores=CORES)

    assert 0.8 * 6500 < rate < 1.2 * 8900


def test_laws() -> None:
    """No more than the bound of the lock, or of the cores; a shorter time under the lock is no slower."""
    for held, releases in ((33e-6, 10.0), (33e-6, 0.1), (4e-6, 0.1)):
        work = Work(1.7e-3, held, releases)
        rates = [predict_rate(work, num_threads=number, cores=16) for number in (1, 2, 8, 16)]
        assert rates == sorted(rates)
        assert rates[0] == pytest.approx(1 / (1.7e-3 + held))
        assert rates[-1] <= min(1 / work.held_seconds, 16 / 1.7e-3)
    lock_bound = predict_rate(Work(1e-6, 100e-6, 0.01), num_threads=16, cores=16)
    assert lock_bound == pytest.approx(10_000, rel=0.01)
