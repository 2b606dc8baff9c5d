"""The tables of single operations and of the batch stage."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from bench.cli import main
from bench.micro import batch, cases, ops
from bench.micro.batch import RECIPE, BatchResult, contestants, show_batch
from bench.micro.cases import Case
from bench.micro.ops import Line, measure_ops, show_ops
from bench.micro.ops_table import OPS
from bench.micro.turns import Turns

CPU = torch.device("cpu")


@pytest.mark.long
def test_every_operation_runs_in_every_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cell of the table that names a transform gives images."""
    monkeypatch.setattr(cases, "ENGINES", ("albumentations",))  # nothing to compile
    monkeypatch.setattr(ops, "OPS", OPS[::3])
    pictures = np.random.default_rng(0).integers(0, 256, (1, 32, 32, 3), np.uint8)
    settings = ops.OpsSettings(side=32, batch_sizes=(1,), turns=1, seconds=0.0, with_compiled=False)

    for line in measure_ops(pictures, settings):
        assert list(line.reasons) == ["kornia compiled"], (line.op, line.reasons)
        assert len(line.cells) == 4


def test_table_says_what_is_missing_once() -> None:
    """The same reason at several operations is one sentence."""
    cells = {"torchvision": Turns((16e-6,))}
    lines = [
        Line(op.name, 16, "cpu", cells, {"kornia": "has none"}, "albumentations") for op in OPS[:2]
    ]
    console = Console(width=96, record=True)

    show_ops(lines, ops.QUICK, console)

    text = console.export_text()
    assert text.count("kornia without HorizontalFlip, Rotate 30: has none") == 1
    assert " 16 " in text  # images
    assert " 1 " in text  # microsecond per image


def test_batch_contestants_make_normalised_batches() -> None:
    """Everyone returns floats [b, 3, H, W] of the same photographs with plausible values."""
    side = 48
    ramp = np.linspace(0, 255, side * side * 3).reshape(1, side, side, 3)
    case = Case(np.repeat(ramp, 3, axis=0).astype(np.uint8), CPU)

    for name, make in contestants(case, batch.QUICK).items():
        made = make()()
        assert isinstance(made, torch.Tensor)
        assert made.shape == (3, 3, side, side), name
        assert made.dtype == (torch.bfloat16 if "bfloat16" in name else torch.float32), name
        assert -2.2 < float(made.min()) < -1.5, name
        assert 0.5 < float(made.max()) < 3.0, name


def test_batch_table_gives_ratios() -> None:
    """Half the time of Kornia is twice its speed."""
    result = BatchResult("cpu", {"gpu-aug/fused": Turns((0.1,)), "kornia": Turns((0.2,))}, {})
    console = Console(width=120, record=True)

    show_batch(result, batch.QUICK, console)

    line = next(row for row in console.export_text().splitlines() if "fused" in row)
    assert line.split()[-2:] == ["2.00", "-"]
    assert len(RECIPE.batch_leaves) == 5


@pytest.mark.parametrize("command", [pytest.param("ops", marks=pytest.mark.long), "batch"])
def test_command_writes_what_it_measured(
    command: str, photos: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A quick run prints a table and writes rows with a pedigree."""
    path = tmp_path / "result.json"
    with pytest.raises(SystemExit) as end:
        main(["bench", command, "--data", str(photos[0].parent), "--quick", "--json", str(path)])

    written = json.loads(path.read_text())
    assert end.value.code == 0
    assert "written:" in capsys.readouterr().out
    assert written["command"] == f"bench {command}"
    assert written["rows"]
    assert written["machine"]["cores"] >= 1
