"""The proxies of the host's path, by the command."""

import json
from pathlib import Path

import pytest

from bench.micro.overhead import QUICK
from bench.micro.without_gpu import LEFT_OUT, host_decoders
from tests.support.commands import Run


@pytest.mark.long
@pytest.mark.needs_dali
def test_command(run: Run, photos: list[Path], tmp_path: Path) -> None:
    """Every decoder whose host part can run here has its figures, in a folder and a tar, beside their aims."""
    result = tmp_path / "result.json"

    code, said, _ = run("bench", "overhead", photos[0].parent, "--quick", "--json", result)

    told = json.loads(result.read_text())
    assert code == 0
    rows = {(row["figure"], row["data"]): row for row in told["rows"]}
    assert len(rows) == len(told["rows"])
    for form in ("folder", "tar"):
        assert rows["switches per image, cpu, 16 threads", form]["aim"] == 1
        for decoder in host_decoders():
            held = rows[f"holds the lock, us per image, {decoder}", form]
            assert held["aim"] == 4
            assert len(held["runs"]) == QUICK.rounds
            assert 0 < held["value"] < 20_000
            model = rows[f"images/s, {decoder}, 16 threads of 16 cores (model)", form]
            assert 0 < model["value"] <= 1e6 / held["value"]
            aimed = rows[f"images/s, {decoder}, 16 threads of 16 cores with the aims (model)", form]
            assert model["value"] < aimed["value"] < 250_000
    if "cuda" in host_decoders():
        assert rows["images/s, cuda without kernels", "tar"]["value"] > 0
    assert told["left_out"] == list(LEFT_OUT)
    assert "no measurement" in told["meaning"]
    assert "holds the lock" in said
