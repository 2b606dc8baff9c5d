"""The steps of a visit that verify: what is planted is found, and what may differ passes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.gpu import loaders, memory, races, row_checks, sanitizer
from bench.gpu.broken import broken_files
from bench.gpu.contenders import decoders, endless, loader_for
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale, photographs
from dali_pipes import DecodeError, Loader
from dali_pipes.decode import opencv
from readers import HeaderError, read_header


def complaint(rows: Rows, judge: Callable[..., None], *given: Any) -> str:
    """What a verdict on something complains of."""
    with rows.check("one") as row:
        judge(*given, row)
    return str(row.facts.get("error", ""))


def named(rows: Rows, name: str) -> Row:
    """Return a row by its name."""
    [row] = (row for row in rows if row.name == name)
    return row


def bad(rows: Rows) -> list[str]:
    """The names of the rows that are wrong."""
    return [row.name for row in rows if row.verdict == "wrong"]


def test_our_loaders_are_of_every_decoder(scale: Scale, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU "cuda" is among them, and a missing DALI costs only itself."""
    known = {"cuda": "", "dali": "missing", "cpu": ""}
    monkeypatch.setattr("bench.gpu.contenders.available_decoders", lambda: known)

    assert decoders(replace(scale, device=torch.device("cuda", 0))) == ["cuda", "cpu"]
    assert decoders(scale) == ["cpu"]


def test_an_epoch_is_long(data: Path, scale: Scale) -> None:
    """A loader repeats its files, so that no measurement meets the end of an epoch; a rehearsal decodes on the CPU."""
    with loader_for(scale, data, "cuda", batch_size=8) as loader:
        batches = endless(loader)
        seen = torch.cat([next(batches).indices for _ in range(3)])

        assert len(loader) >= 200
        assert len(set(seen.tolist())) == 24


def test_files_are_broken_as_they_say(data: Path) -> None:
    """The CPU refuses what is cut, empty or no picture, and takes what is only damaged."""
    refused = set()
    broken = broken_files(photographs(data, (60, 80), 1)[0])
    for name, content in broken.items():
        try:
            header = read_header(content)
            if header.height * header.width < 10**6:
                opencv.decode(content, (header.height, header.width))
        except (HeaderError, DecodeError):
            refused.add(name)

    assert {"cut at 50 %", "cut in the header", "no bytes", "text", "PNG, cut"} <= refused
    assert {"nonsense Huffman tables", "height 0 in the header"} <= refused
    assert "bits flipped in the scan" not in refused
    assert len(set(broken.values())) == len(broken)


@pytest.mark.parametrize(
    ("images", "found", "expected"),
    [
        ((0, 2, 3), [(1, "decode")], ""),
        ((0, 1, 2, 3), [], "bad samples"),
        ((0, 2, 3), [(1, "header")], "bad samples"),
        ((0, 3), [(1, "decode")], "came instead"),
        ((0, 2.1, 3), [(1, "decode")], "differs by"),
    ],
)
def test_verdicts_and_neighbours_of_damage_are_compared(
    rows: Rows, images: tuple[float, ...], found: list[tuple[int, str]], expected: str
) -> None:
    """Another verdict, a sample that is lost, and a neighbour with another bit are wrong."""
    sound = row_checks.Run({n: torch.full((3, 2, 2), n / 10) for n in range(4)})
    right = row_checks.Run({n: sound.images[n] for n in (0, 2, 3)}, [(1, "decode")])
    actual = row_checks.Run({int(n): torch.full((3, 2, 2), n / 10) for n in images}, found)

    told = complaint(rows, row_checks.judge, actual, right, sound, {1})

    assert expected in told
    assert bool(expected) == bool(told)


def test_a_row_of_another_picture_is_found(
    data: Path, scale: Scale, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where two rows of a batch change places, both are counted."""
    real = row_checks._gaps
    monkeypatch.setattr(row_checks, "decoders", lambda _: ["cpu"])
    monkeypatch.setattr(row_checks, "CASES", [("cpu", {}, 32)])

    def swapped(images: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
        return real(images[[1, 0, *range(2, len(images))]], expected)

    monkeypatch.setattr(row_checks, "_gaps", swapped)
    row_checks.under_load(scale, data, rows)

    assert bad(rows) == ["cpu, saturated"]
    assert named(rows, "cpu, saturated").value == 2 * -(-16 // 4) + 2 * -(-16 // 8)


def test_a_leak_is_growth(rows: Rows) -> None:
    """Half a MiB with each look adds up; ups and downs, and what the first quarter takes, do not."""
    waves = [n * 20.0 for n in range(25)] + [500.0 + 40 * (n % 3) for n in range(75)]
    for name, series in (("leak", [500 + n / 2 for n in range(100)]), ("waves", waves)):
        with rows.check(name) as row:
            memory.judge_growth(row, series, 16.0)

    assert bad(rows) == ["leak"]
    assert named(rows, "waves").value == 0


def test_races_are_wrong(data: Path, scale: Scale, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """A loss that changes in its last digit when nobody waits is found, with its step."""
    losses = races.losses

    def racing(*given: Any, waits: bool, **more: Any) -> list[float]:
        found = losses(*given, waits=waits, **more)
        return found if waits else [*found[:2], found[2] + 1e-12, *found[3:]]

    monkeypatch.setattr(races, "decoders", lambda _: ["cpu"])
    monkeypatch.setattr(races, "losses", racing)
    races.races(scale, data, rows)

    assert bad(rows) == ["cpu"]
    assert named(rows, "cpu").facts["first at step"] == [2, 2]


@pytest.mark.parametrize(
    ("part", "status", "text", "expected"),
    [
        ("batch", 0, sanitizer.END, ""),
        ("batch", sanitizer.FOUND, "========= Invalid __global__ write", "errors, the first: ========= Invalid"),
        ("batch", 0, "", "died before its end"),
        ("batch", 1, sanitizer.END, "exit 1"),
        ("planted", sanitizer.FOUND, "", ""),
        ("planted", 0, sanitizer.END, "planted error is not found"),
    ],
)  # fmt: skip
def test_errors_of_our_kernels_are_wrong(
    rows: Rows, part: str, status: int, text: str, expected: str
) -> None:
    """An error is wrong, a run without an end, and a control that finds nothing."""
    told = complaint(rows, sanitizer.judge, part, status, text)

    assert expected in told
    assert bool(expected) == bool(told)


def test_all_our_kernels_are_checked() -> None:
    """The names are those of the JPEG decoder's kernels, and of the fused engine's."""
    from dali_pipes.decode.cuda_jpeg.on_gpu import NAMES

    assert set(sanitizer.KERNELS) == {*NAMES, "run_pass", "sum_gray", "planted"}


def event(name: str, tid: int, ts: float, cat: str = "cuda_runtime", dur: int = 1) -> dict[str, Any]:  # fmt: skip
    """One of the events of a trace."""
    return {"name": name, "tid": tid, "ts": ts, "cat": cat, "dur": dur}


LOOP = [
    event(races.MARK, 7, 100, "user_annotation", 900),
    event(races.MARK, 3, 100, "gpu_user_annotation", 900),
    event("cudaStreamSynchronize", 9, 300),
    event("cudaStreamSynchronize", 7, 50),
    event("cudaDeviceSynchronize", 7, 1500),
    {"name": "process_name", "ph": "M", "tid": 7},
]


@pytest.mark.parametrize(
    ("name", "count"),
    [
        *((name, 1) for name in ("cudaStreamSynchronize_v3020", "cudaEventSynchronize", "cudaMemcpy_ptds", "cuMemcpyDtoH_v2")),
        *((name, 0) for name in ("cudaMemcpyAsync", "cudaStreamWaitEvent", "cudaEventRecord", "cuLaunchKernelEx")),
    ],
)  # fmt: skip
def test_waits_of_the_loop_are_found(name: str, count: int) -> None:
    """Calls that wait count on the loop's thread and within the loop; another thread's are told apart."""
    mine, others = races.find_waits([*LOOP, event(name, 7, 400)])

    assert (mine.total(), dict(others)) == (count, {"cudaStreamSynchronize": 1})
    with pytest.raises(ValueError, match="values to unpack"):
        races.find_waits(LOOP[1:])


@pytest.mark.parametrize("fault", ["none", "late"])
def test_a_graph_with_other_answers_is_wrong(
    data: Path, scale: Scale, rows: Rows, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """A replay that gives the answer of the batch before is found, for each decoder."""

    def late(work: Any, _scale: Scale, _mode: str) -> Any:
        answers = [work()]
        return lambda: answers.append(work()), lambda: answers[-2]

    if fault == "late":
        monkeypatch.setattr(races, "capture", late)
    monkeypatch.setattr(races, "decoders", lambda _: ["cpu"])
    races.streams(scale, data, rows)

    name = "cpu: a graph captured while batches are made"
    modes = ["thread_local", "global"] if fault == "late" else []
    assert bad(rows) == [f"{name}, {mode}" for mode in modes]


def test_a_loader_that_fails_costs_its_own_rows(
    data: Path, scale: Scale, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one is measured all the same, and what is lost is that of each round."""

    def opened(scale: Scale, folder: Path, _decoder: str, **options: Any) -> Loader:
        if options["num_threads"] == 3:
            raise RuntimeError("as planned")
        return loader_for(scale, folder, "cpu", **options)

    monkeypatch.setattr(loaders, "loader_for", opened)
    monkeypatch.setitem(loaders.CASES, "a", [loaders.Case("cpu", 3), loaders.Case("cpu", 2)])
    loaders.loaders(scale, data, rows)

    assert [row.name for row in rows if row.verdict == "failed"] == ["cpu+fused, 3 threads, photographs, alone"]  # fmt: skip
    lost = named(rows, "cpu+fused, 2 threads, photographs, lost to waiting").facts
    rates = zip(lost["images/s"], lost["images/s without"], strict=True)
    assert lost["runs"] == pytest.approx([100 * (1 - own / ideal) for own, ideal in rates], abs=2)
    assert (
        named(rows, "cpu+fused, 2 threads, photographs, alone").facts[
            "voluntary switches per image"
        ]
        >= 0
    )
