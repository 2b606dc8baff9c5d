"""The examples, run as people run them: losses fall, and a run that was stopped goes on to the last digit."""

import runpy
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from dali_pipes import Loader, LoaderError
from gpu_aug import CenterCrop, Recipe, Resize
from readers import open_dataset

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
Main = Callable[[list[str]], Any]

pytestmark = pytest.mark.filterwarnings("ignore")  # of the frameworks


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The photographs that the examples make for themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPU_AUG_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.syspath_prepend(str(EXAMPLES))
        from arguments import own_photographs

        yield own_photographs()
        sys.modules.pop("arguments")


@pytest.fixture
def load_main(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Main]:
    """Returns an example's `main`, which will find the photographs by itself and compute on one thread."""
    monkeypatch.setenv("GPU_AUG_CACHE", str(data.parent))
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.chdir(tmp_path)

    def load(name: str) -> Main:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what they import
            main: Main = runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]
        return main

    return load


@pytest.fixture(autouse=True)
def _same_sums() -> Iterator[None]:
    """Let torch add numbers in one order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(before)


# Stops lie within an epoch (4 steps; 3 under Lightning, where a quarter is kept for validation) and at an end.
@pytest.mark.parametrize(
    ("name", "module", "stops", "steps"),
    [
        ("train_resnet", "torchvision", (4, 6), 7),
        ("train_lightning", "lightning", (3, 5), 7),
        ("train_torchdata", "torchdata.nodes", (4, 6), 10),
        ("train_jax", "jax", (6, 8), 24),
        ("train_dali_iterator", "torchvision", (4, 6), 7),
    ],
    ids=lambda value: value if str(value).startswith("train") else "",
)
@pytest.mark.long
def test_stopped_runs_go_on(
    load_main: Callable[[str], Main], name: str, module: str, stops: tuple[int, ...], steps: int
) -> None:
    """Losses fall, and those of a run that was stopped twice are the uninterrupted run's, as numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip(module)
    main = load_main(name)
    whole = main(["--steps", str(steps), "--checkpoint", "whole.pt"])
    stopped = []
    for stop in (*stops, steps):
        stopped.append(main(["--steps", str(stop), "--checkpoint", "stopped.pt"]))

    third = steps // 3
    assert sum(whole[-third:]) < 0.93 * sum(whole[:third])
    assert [len(part) for part in stopped] == [stops[0], stops[1] - stops[0], steps - stops[1]]
    assert stopped[0] + stopped[1] + stopped[2] == whole
    assert len(set(whole)) == steps  # negative control: other batches give other numbers


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("train_resnet", "torchvision"),
        ("train_lightning", "lightning"),
        ("train_torchdata", "torchdata.nodes"),
        ("train_jax", "jax"),
        ("train_dali_iterator", "torchvision"),
    ],
    ids=lambda value: value if str(value).startswith("train") else "",
)
def test_interrupted_runs_go_on(
    load_main: Callable[[str], Main],
    name: str,
    module: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Ctrl-C costs the steps since the last saving at most; a run that is at its end says so; no two share a file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip(module)
    main = load_main(name)
    monkeypatch.setattr(sys.modules["arguments"], "SAVE_EVERY", 2)
    whole = main(["--steps", "5", "--checkpoint", "whole.pt"])

    def interrupt(*words: Any) -> None:
        if "step 4:" in str(words):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("builtins.print", interrupt)
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            main(["--steps", "5"])
    kept = {path.name for path in tmp_path.iterdir() if not path.name.startswith("whole")}
    rest = main(["--steps", "5"])
    capsys.readouterr()

    assert {Path(place).stem for place in kept} == {name}
    assert len(kept) == 1
    assert rest == whole[-len(rest) :]
    assert len(rest) == (2 if name == "train_lightning" else 3)  # it saves every step
    assert main(["--steps", "5"]) == []
    assert f"{name}." in (said := capsys.readouterr().out)
    assert "is at step 5 already; give a larger --steps" in said


def test_cupy_without_a_gpu(load_main: Callable[[str], Main]) -> None:
    """hand_to_cupy says what it needs."""
    pytest.importorskip("cupy")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(LoaderError, match=r'give Loader\(device="cuda"\)'):
        load_main("hand_to_cupy")([])


@pytest.mark.needs_cuda
def test_cupy_on_a_gpu(
    load_main: Callable[[str], Main], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What CuPy measures is what torch does on the CPU, within what decoders may differ."""
    pytest.importorskip("cupy")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    mean, spread = load_main("hand_to_cupy")(["--steps", "4"])
    recipe = Recipe([Resize(256), CenterCrop(224)])
    loader = Loader(open_dataset(data), recipe, batch_size=64, device="cpu", dtype=torch.float32)
    images = next(iter(loader)).images

    assert mean == pytest.approx(images.mean((0, 2, 3)).tolist(), abs=0.005)
    assert spread == pytest.approx(images.std((0, 2, 3)).tolist(), abs=0.005)
