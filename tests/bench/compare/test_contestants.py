"""Who takes part: the table, and what the options choose from it."""

from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name

import pytest

from bench.baselines.peers import catalog
from bench.baselines.peers.catalog import PEERS
from bench.compare.contestants import (
    IMAGES,
    VIDEOS,
    WINDOWS,
    Contestant,
    choose,
    missing_peers,
)
from bench.compare.process import ContestantProcess
from bench.compare.task import Unable
from bench.output.errors import BenchError


@pytest.fixture(autouse=True)
def grain_alone_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No peer's package is here, and one environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catalog, "has_package", lambda _: False)
    monkeypatch.setattr("bench.compare.process.has_package", lambda _: False)
    (tmp_path / ".peers" / "grain").mkdir(parents=True)
    (tmp_path / ".peers" / "grain" / "complete").touch()


@pytest.mark.parametrize("one", [*IMAGES, *VIDEOS, *WINDOWS], ids=lambda one: one.name)
def test_every_contestant_can_be_found(one: Contestant) -> None:
    """What the table names is there, of other people's loaders as a file."""
    if ".peers." in one.start:
        module = one.start.partition(":")[0].removeprefix("bench.").replace(".", "/")
        assert "def start(" in (Path(catalog.__file__).parents[2] / f"{module}.py").read_text()
    else:
        assert callable(resolve_name(one.start))
    assert not one.peer or one.peer in PEERS


def test_names_differ() -> None:
    """Each row can be asked for."""
    for table in (IMAGES, VIDEOS, WINDOWS):
        assert len({one.name for one in table}) == len(table)


USUAL = [
    *("torchvision-pil", "torchvision-v2", "torchvision-tensor", "opencv-albumentations"),
    *("kornia", "dali-cpu"),
]
PYAV_AND_OPENCV = [
    f"{name} ({where})"
    for name in ("pyav+torchvision", "opencv+albumentations")
    for where in ("processes", "threads")
]


@pytest.mark.parametrize(
    ("table", "peers", "on_gpu", "baselines"),
    [
        (IMAGES, (), False, [*USUAL, "grain"]),
        (IMAGES, (), True, [*USUAL, "dali-gpu", "torchvision-cuda", "grain"]),
        (IMAGES, ("none",), False, []),
        (IMAGES, ("spdl", "dali-cpu"), False, ["dali-cpu", "spdl"]),
        (IMAGES, ("torchvision-cuda",), False, ["torchvision-cuda"]),
        (IMAGES, ("all",), False, [*USUAL, *(name for name, peer in PEERS.items() if name not in ("decord2", "lerobot") and not peer.command)]),
        (VIDEOS, ("decord2",), False, [f"decord+torchvision ({way})" for way in ("processes", "threads")]),
    ],
)  # fmt: skip
def test_peers_choose_the_baselines(
    table: Sequence[Contestant], peers: Sequence[str], on_gpu: bool, baselines: list[str]
) -> None:
    """All, none, some, or those that are installed; ours and the ceilings are always there."""
    chosen = choose(table, on_gpu=on_gpu, peers=peers, only=())

    assert [one.name for one in chosen if one.kind == "baseline"] == baselines
    rest = [one for one in table if one.kind != "baseline"]
    assert [one for one in chosen if one.kind != "baseline"] == rest


def test_videos_have_baselines_without_any_system_package() -> None:
    """PyAV and OpenCV bring their FFmpeg; what needs the system's says so by itself."""
    chosen = [one.name for one in choose(VIDEOS, on_gpu=False, peers=(), only=())]

    assert chosen[:4] == PYAV_AND_OPENCV
    assert not any(name.startswith("decord") for name in chosen)


def test_only_takes_the_first_epoch_along() -> None:
    """A row that is asked for takes part wherever it could; of ours the first epoch as well."""
    only = ("gpu-aug/cpu+fused", "spdl")

    chosen = choose(IMAGES, on_gpu=False, peers=(), only=only)

    assert [one.name for one in chosen] == [
        *("spdl", "gpu-aug/cpu+fused", "gpu-aug/cpu+fused (first epoch)")
    ]


@pytest.mark.parametrize("given", [{"peers": ("petastorm",)}, {"only": ("petastorm",)}])
def test_unknown_names_are_refused(given: dict[str, Sequence[str]]) -> None:
    """With the names there are."""
    with pytest.raises(BenchError, match=r"torchvision-pil.*got petastorm: correct the name"):
        choose(IMAGES, on_gpu=False, **{"peers": (), "only": (), **given})


def test_a_peer_that_is_not_installed_says_how() -> None:
    """Without an environment it is Unable, with the command that makes one."""
    [spdl] = [one for one in IMAGES if one.name == "spdl"]

    with pytest.raises(Unable, match="gpu-aug bench compare DATA --peers spdl installs it"):
        ContestantProcess(spdl)
    assert missing_peers(IMAGES) == ["litdata", "mosaic-streaming", "spdl", "webdataset"]


def test_every_peer_has_pinned_packages() -> None:
    """Each folder names its packages with a version, the peer's own among them."""
    for name, peer in PEERS.items():
        lines = catalog.requirements(name).read_text().split()
        assert all(line.count("==") == 1 for line in lines), name
        assert peer.distribution in [line.partition("==")[0] for line in lines]
