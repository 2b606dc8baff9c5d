"""The examples, run as people run them: losses fall, and a run that was stopped goes on to the last digit."""

import json
import os
import runpy
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from dali_pipes import Loader, LoaderError
from gpu_aug import CenterCrop, Normalize, Recipe, Resize
from readers import open_dataset

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
Main = Callable[[list[str]], Any]
Load = Callable[..., Main]
"""Takes the name of an example and, if it needs one, a module without which the test is skipped."""

pytestmark = pytest.mark.filterwarnings("ignore")  # of the frameworks


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The photographs that the examples make for themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPU_AUG_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.syspath_prepend(str(EXAMPLES))
        from arguments import own_photographs

        yield own_photographs()
        for path in EXAMPLES.glob("*.py"):  # by names that are anybody's
            sys.modules.pop(path.stem, None)


@pytest.fixture
def load_main(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Returns an example's `main`, which will find the photographs by itself and compute on one thread."""
    monkeypatch.setenv("GPU_AUG_CACHE", str(data.parent))
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.chdir(tmp_path)

    def load(name: str, module: str = "torch") -> Main:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what they import
            pytest.importorskip(module)
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


def test_an_example_without_ray_says_what_to_install(
    load_main: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one sentence."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "ray"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SystemExit, match=r"needs Ray Train .*: pip install 'gpu-aug\[ray\]'"):
        load_main("train_ray")


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
    load_main: Load, name: str, module: str, stops: tuple[int, ...], steps: int
) -> None:
    """Losses fall, and those of a run that was stopped twice are the uninterrupted run's, as numbers."""
    main = load_main(name, module)
    whole = main(["--steps", str(steps), "--checkpoint", "whole.pt"])
    stopped = [
        main(["--steps", str(stop), "--checkpoint", "stopped.pt"]) for stop in (*stops, steps)
    ]

    third = steps // 3
    assert sum(whole[-third:]) < 0.93 * sum(whole[:third])
    assert [len(part) for part in stopped] == [stops[0], stops[1] - stops[0], steps - stops[1]]
    assert stopped[0] + stopped[1] + stopped[2] == whole
    assert len(set(whole)) == steps  # negative control: other batches give other numbers


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("train_resnet", "torchvision"),
        pytest.param("train_lightning", "lightning", marks=pytest.mark.long),
        pytest.param("train_torchdata", "torchdata.nodes", marks=pytest.mark.long),
        pytest.param("train_jax", "jax", marks=pytest.mark.long),
        pytest.param("train_dali_iterator", "torchvision", marks=pytest.mark.long),
    ],
    ids=lambda value: value if str(value).startswith("train") else "",
)
def test_interrupted_runs_go_on(
    load_main: Load,
    name: str,
    module: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Ctrl-C costs the steps since the last saving at most; a run that is at its end says so; no two share a file."""
    main = load_main(name, module)
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


def test_a_stopped_policy_goes_on(load_main: Load) -> None:
    """The losses of a run that was stopped within an epoch and after its end are the uninterrupted run's, as numbers."""
    main = load_main("robot_policy", "av")
    data = runpy.run_path(str(EXAMPLES / "make_robot.py"))["make_robot"](Path("reaching"), 3)
    words = [str(data), "--checkpoint"]
    whole = main([*words, "whole.pt", "--steps", "7"])  # an epoch has 4 steps
    parts = [main([*words, "stopped.pt", "--steps", str(stop)]) for stop in (2, 5, 7)]

    assert [len(part) for part in parts] == [2, 3, 2]
    assert parts[0] + parts[1] + parts[2] == whole
    assert len(set(whole)) == 7  # negative control: other batches give other numbers


def test_a_policy_sees_no_distances(load_main: Load) -> None:
    """A depth camera is no picture of its input."""
    main = load_main("robot_policy", "av")
    from tests.support.lerobot import DEPTH, Depth, Robot

    depth = Depth(np.zeros((18, 16, 24), np.uint16), {"video.depth_min": 0.0}, codec="ffv1")
    robot = Robot(lengths=(14, 4), files=((0, 1),), depths={DEPTH: depth})
    root = robot.write(Path("robot"))
    (root / "meta/stats.json").write_text(json.dumps({"action": {"std": [1.0, 2.0, 3.0]}}))

    assert len(main([str(root), "--steps", "1"])) == 1


@pytest.mark.usefixtures("data")
def test_ranks_make_photographs_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that finds the photographs of another one where its own should go takes those."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import arguments

    def made_by_both(folder: Path, per_class: int) -> None:
        for place in (folder, tmp_path / "example-photographs"):
            (place / "cat").mkdir(parents=True)
            (place / "cat" / f"{per_class}.jpg").touch()

    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path))
    monkeypatch.setattr(arguments, "make_photographs", made_by_both)

    assert [path.name for path in arguments.own_photographs().iterdir()] == ["cat"]
    assert [path.name for path in tmp_path.iterdir()] == ["example-photographs"]


@pytest.fixture(scope="module")
def made(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Data like those of the trainings that reach something, a few samples of each."""
    make_boxes = runpy.run_path(str(EXAMPLES / "make_boxes.py"))["make_boxes"]
    make_videos = runpy.run_path(str(EXAMPLES / "make_videos.py"))["make_videos"]
    folder = tmp_path_factory.mktemp("made")
    for part in ("train", "test"):
        for path in sorted(data.glob("*/*-0[0-2].jpg")):
            small = folder / "pictures" / part / path.parent.name / path.name
            small.parent.mkdir(parents=True, exist_ok=True)
            Image.open(path).resize((32, 32)).save(small, quality=95)
    pictures = folder / "pictures"
    return {
        "train_cifar": pictures,
        "train_simclr": pictures,
        "train_boxes": make_boxes(folder / "shapes", (24, 8)),
        "train_video": make_videos(folder / "moving", (4, 1)),
    }


SHORT = ["--epochs", "2", "--batch-size", "8"]  # 3 steps each


@pytest.mark.parametrize(
    "name",
    [
        "train_cifar",
        "train_boxes",
        pytest.param("train_video", marks=pytest.mark.long),
        pytest.param("train_simclr", marks=pytest.mark.long),
    ],
)
def test_stopped_trainings_go_on(load_main: Load, made: dict[str, Path], name: str) -> None:
    """Stopped within the first epoch and at its end, a training gives the losses of one that was not, as numbers."""
    main, words = load_main(name), [str(made[name]), *SHORT]
    whole = main([*words, "--checkpoint", "whole.pt", "--json", "whole.json"])
    ends = ["--checkpoint", "stopped.pt", "--json", "stopped.json"]
    parts = [main([*words, *ends, *stop]) for stop in (["--stop", "2"], ["--stop", "3"], [])]

    assert [len(part) for part in parts] == [2, 1, 3]
    assert parts[0] + parts[1] + parts[2] == whole
    assert len(set(whole)) == 6  # negative control: other batches give other numbers
    figures = [json.loads(Path(file).read_text()) for file in ("whole.json", "stopped.json")]
    figure = "map" if name == "train_boxes" else "accuracy"
    assert figures[0][figure] == figures[1][figure]
    assert 0 <= figures[0][figure] <= 1


def test_checkpoints_of_other_runs_are_refused(load_main: Load, made: dict[str, Path]) -> None:
    """A run that is over, another pipeline, and a batch that ranks cannot share end in a sentence."""
    main, words = load_main("train_cifar"), [str(made["train_cifar"]), *SHORT]
    main([*words, "--checkpoint", "run.pt"])

    with pytest.raises(SystemExit, match=r"run\.pt is of a run that is over: remove it, or"):
        main([*words, "--checkpoint", "run.pt"])
    with pytest.raises(SystemExit, match=r"'pipeline': 'gpu-aug'.* not .*'torchvision'"):
        main([*words, "--checkpoint", "run.pt", "--pipeline", "torchvision"])
    with pytest.raises(SystemExit, match="5 ranks cannot share"):
        main([*words, "--ranks", "5"])


@pytest.mark.parametrize("name", ["train_cifar", "train_boxes", "train_video", "train_simclr"])
@pytest.mark.long
def test_stopped_ranks_go_on(made: dict[str, Path], name: str, tmp_path: Path) -> None:
    """So do two processes that train together."""

    def losses(file: str, *words: str) -> Any:
        command = [sys.executable, str(EXAMPLES / f"{name}.py"), str(made[name]), *SHORT, *words]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        ends = ["--checkpoint", str(tmp_path / file)]
        subprocess.run([*command, *ends], check=True, env=environment, cwd=tmp_path)
        return torch.load(tmp_path / file)["losses"]

    whole = losses("whole.pt", "--ranks", "2")
    losses("stopped.pt", "--ranks", "2", "--stop", "2")

    assert losses("stopped.pt", "--ranks", "2") == whole
    assert len(set(whole)) == 6


@pytest.mark.parametrize(
    ("name", "peer"),
    [
        ("train_cifar", "torchvision"),
        ("train_boxes", "albumentations"),
        ("train_video", "torchvision"),
    ],
)
@pytest.mark.long
def test_trainings_on_other_pipelines(
    load_main: Load, made: dict[str, Path], name: str, peer: str
) -> None:
    """The same training runs on another library's pipeline, over as many samples."""
    main, words = load_main(name), [str(made[name]), *SHORT]
    losses = main([*words, "--checkpoint", "peer.pt", "--pipeline", peer])

    assert len(losses) == 6
    assert losses != main([*words, "--checkpoint", "own.pt"])


def test_policies_train(load_main: Load, made: dict[str, Path]) -> None:
    """Each policy of train_cifar changes what is trained on, from the first step, and losses stay numbers."""
    main = load_main("train_cifar")
    policies = [[], ["--randaugment"], ["--mix", "mixup"], ["--mix", "cutmix"]]
    losses = torch.tensor(
        [
            main([str(made["train_cifar"]), *SHORT, "--checkpoint", f"{number}.pt", *words])
            for number, words in enumerate(policies)
        ]
    )

    assert losses.shape == (4, 6)
    assert losses.isfinite().all()
    assert (losses[1:] != losses[0]).all()


def test_torchvision_is_given_the_same_pictures(load_main: Load, made: dict[str, Path]) -> None:
    """Both pipelines test on equal pixels, within the rounding of the normalisation, and equal labels."""
    load_main("train_cifar")
    from peer_images import torchvision_images

    folders = [made["train_cifar"] / part for part in ("train", "test")]
    mean, std = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
    [theirs] = torchvision_images(folders, 8, 0, mean, std)[1]
    recipe = Recipe([CenterCrop(32), Normalize(mean, std)])
    [ours] = Loader.eval(open_dataset(folders[1]), recipe, batch_size=24)

    assert torch.equal(ours.labels, theirs.labels)
    assert (ours.images - theirs.images).abs().max() < 1e-5
    assert (ours.images[:-1] - theirs.images[1:]).abs().max() > 0.1  # negative control


def test_mean_precision(load_main: Load, made: dict[str, Path]) -> None:
    """A detector that finds every shape has mAP 1; one that is 4 pixels off has much less."""
    load_main("train_boxes")
    from detector import SIDE, mean_precision

    recipe = Recipe([Resize((SIDE, SIDE)), Normalize()])
    test = list(Loader.eval(open_dataset(made["train_boxes"] / "test"), recipe, batch_size=8))

    def oracle(shift: float) -> torch.nn.Module:
        class Oracle(torch.nn.Module):
            def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                scores, boxes = (
                    torch.full((len(images), 9, 3), -9.0),
                    torch.zeros(len(images), 9, 4),
                )
                for row, (found, kinds) in enumerate(
                    zip(test[0].boxes, test[0].box_labels, strict=True)
                ):
                    boxes[row, : len(found)] = found + shift
                    scores[row, range(len(found)), kinds] = 3.0
                return scores, boxes

        return Oracle()

    exact, shifted = (mean_precision(oracle(by), test)["map"] for by in (0.0, 4.0))
    assert exact == pytest.approx(1.0)
    assert shifted < 0.5


def test_broken_data(load_main: Load, made: dict[str, Path], tmp_path: Path) -> None:
    """What is said of data that compare.py spoils is so, and the data for the test stay whole."""
    load_main("compare")
    from studies import shift_boxes, shuffle_labels

    pictures = shutil.copytree(made["train_cifar"], tmp_path / "pictures")
    shuffle_labels(pictures, share=0.25)
    sound, spoilt = (
        {path.read_bytes(): path.parent.name for path in folder.glob("train/*/*.jpg")}
        for folder in (made["train_cifar"], pictures)
    )
    assert set(sound) == set(spoilt)
    assert sum(sound[one] != spoilt[one] for one in sound) == round(0.25 * len(sound))
    shapes = shutil.copytree(made["train_boxes"], tmp_path / "shapes")
    shift_boxes(shapes)
    for part, by in (("train", 4), ("test", 0)):
        for path in sorted((shapes / part).glob("*.json")):
            before, after = (
                torch.tensor(json.loads(file.read_text())["boxes"])
                for file in (made["train_boxes"] / part / path.name, path)
            )
            assert torch.equal(after, (before + torch.tensor([by, 0, by, 0])).clamp(max=96))


def test_verdicts(load_main: Load, capsys: pytest.CaptureFixture[str]) -> None:
    """A mean within the margin of the other library's is said to be so, one beyond it is not."""
    load_main("compare")
    from compare import tell
    from studies import Study

    found = {"gpu-aug": (0.70, 0.72), "other": (0.72, 0.72), "broken": (0.69, 0.71)}
    rows = [
        {"pipeline": pipeline, "seed": seed, "accuracy": value}
        for pipeline, values in found.items()
        for seed, value in enumerate(values)
    ]
    tell(Study("accuracy", 0.015, "other"), rows)

    verdicts = [line.split()[-1] for line in capsys.readouterr().out.splitlines()]
    assert verdicts == ["within", "within", "outside"]


def test_first_steps(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cells of the notebook run one after the other, and what they claim holds."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    monkeypatch.setenv("GPU_AUG_CACHE", str(data.parent))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    notebook = json.loads((EXAMPLES / "first_steps.ipynb").read_text())
    names: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    pyplot.close("all")

    assert "32 photographs of" in capsys.readouterr().out
    assert len(names["losses"]) == 8
    assert names["losses"][-1] < names["losses"][0]


@pytest.mark.long
def test_first_steps_as_a_notebook() -> None:
    """It also runs in a kernel of its own."""
    pytest.importorskip("nbmake")
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider"]
    notebook = ["--rootdir", str(EXAMPLES), "--nbmake", str(EXAMPLES / "first_steps.ipynb")]
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent)}
    done = subprocess.run([*command, *notebook], env=environment, capture_output=True, text=True)

    assert "1 passed" in done.stdout, done.stdout


def test_cupy_without_a_gpu(load_main: Load) -> None:
    """hand_to_cupy says what it needs."""
    pytest.importorskip("cupy")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(LoaderError, match=r'give Loader\(device="cuda"\)'):
        load_main("hand_to_cupy")([])


@pytest.mark.needs_cuda
def test_cupy_on_a_gpu(load_main: Load, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What CuPy measures is what torch does on the CPU, within what decoders may differ."""
    pytest.importorskip("cupy")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    mean, spread = load_main("hand_to_cupy")(["--steps", "4"])
    recipe = Recipe([Resize(256), CenterCrop(224)])
    loader = Loader(open_dataset(data), recipe, batch_size=64, device="cpu", dtype=torch.float32)
    images = next(iter(loader)).images

    assert mean == pytest.approx(images.mean((0, 2, 3)).tolist(), abs=0.005)
    assert spread == pytest.approx(images.std((0, 2, 3)).tolist(), abs=0.005)
