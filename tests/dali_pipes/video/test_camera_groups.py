"""Recipes for groups of cameras in the loader: one draw for each group and window, pictures of several sizes."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dali_pipes import Batch, Clips, Execution, LoaderError, MultiScale, StateMismatchError
from dali_pipes.preview import preview_images
from dali_pipes.stages.assemble import batch_of
from dali_pipes.stages.augment import Engines
from dali_pipes.stages.data import Fetched
from dali_pipes.stages.job import HELPER, make_job
from dali_pipes.stages.remote_production import build
from dali_pipes.stages.shared_memory import Frame
from gpu_aug import (
    CameraRecipes,
    CenterCrop,
    ColorJitter,
    HorizontalFlip,
    MixUp,
    Normalize,
    RandomResizedCrop,
    Recipe,
    RecipeError,
    Resize,
    Schedule,
    TemporalReverse,
    Views,
)
from readers import mix, open_dataset
from tests.support.lerobot import TOP, WRIST, Robot
from tests.support.loaders import loader_maker, write_images
from tests.support.same_batches import assert_same
from tests.support.videos import pan, write_video

LEFT = "observation.images.left"
DELTAS = {TOP: [-0.2, 0.0, 0.1], WRIST: [0.0, 0.1]}
CROPS = Recipe(
    [RandomResizedCrop((24, 32)), HorizontalFlip(), ColorJitter(0.4, 0.4, 0.4), Normalize()]
)
WHOLE = Recipe([HorizontalFlip(), ColorJitter(0.4, 0.4), Resize((16, 20))])  # whole canvases
BOTH = CameraRecipes({TOP: WHOLE, WRIST: CROPS})

load = loader_maker(BOTH, num_threads=2, last_batch="partial", seed=5)


class Alike(Robot):
    """A robot whose cameras all film the same pictures."""

    def frames(self, camera: str) -> NDArray[np.uint8]:
        """The pictures of every camera."""
        return pan(sum(self.lengths), self.sizes[camera])


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with cameras of two sizes."""
    return Robot().write(tmp_path_factory.mktemp("robot"))


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Three cameras that film the same pictures."""
    robot = Alike(sizes=dict.fromkeys((TOP, LEFT, WRIST), (32, 48)))
    return open_dataset(robot.write(tmp_path_factory.mktemp("alike")))


def cameras_of(batches: Any) -> dict[str, dict[int, torch.Tensor]]:
    """The pictures of each camera by the index of the window."""
    found: dict[str, dict[int, torch.Tensor]] = {}
    for batch in batches:
        for name, pictures in batch.cameras.items():
            found.setdefault(name, {}).update(zip(batch.indices.tolist(), pictures, strict=True))
    return found


def are_equal(some: Mapping[int, torch.Tensor], others: Mapping[int, torch.Tensor]) -> bool:
    return some.keys() == others.keys() and all(
        torch.equal(one, others[index]) for index, one in some.items()
    )


@pytest.mark.parametrize("engine", ["fused", "kornia", "albumentations"])
def test_a_group_shares_its_draws(engine: str, alike: Any) -> None:
    """Cameras of a group get one draw for each window, and those of another group with an equal recipe another one."""
    recipes = {(TOP, WRIST): CROPS, LEFT: CROPS}
    for batch in load(alike, recipes, engine=engine):
        shown = batch.cameras
        assert torch.equal(shown[TOP], shown[WRIST])
        for top, left in zip(shown[TOP], shown[LEFT], strict=True):
            assert (top - left).abs().max() > 0.1


def test_draws_belong_to_the_place_of_a_group(alike: Any) -> None:
    """The draws of group n are those of view n, whatever the cameras are called and whichever come together."""
    views = [CROPS, WHOLE, CROPS]
    loader = load(alike, CameraRecipes(dict(zip((LEFT, TOP, WRIST), views, strict=True))))
    wanted = load(open_dataset(alike.root, cameras=TOP), Views(views))
    for mine, theirs in zip(loader, wanted, strict=True):
        assert all(map(torch.equal, mine.views, theirs.views))


def test_the_first_group_is_as_if_alone(root: Path) -> None:
    """Its pictures are those of a loader of its cameras; a group of all cameras is what one recipe makes."""
    dataset = open_dataset(root, delta_timestamps=DELTAS)
    groups = cameras_of(load(dataset, {WRIST: CROPS, TOP: WHOLE}))
    alone = open_dataset(root, cameras=WRIST, delta_timestamps={WRIST: DELTAS[WRIST]})
    together = cameras_of(load(dataset, CROPS))
    turned = cameras_of(load(dataset, {(WRIST, TOP): CROPS}))

    assert are_equal(groups[WRIST], cameras_of(load(alone, CROPS))[WRIST])
    assert all(are_equal(turned[name], together[name]) for name in (TOP, WRIST))


def test_cameras_keep_sizes_of_their_own(root: Path) -> None:
    """Groups have several numbers of pictures and sizes; a group draws for pictures of its own camera's size."""
    dataset = open_dataset(root, delta_timestamps=DELTAS)
    loader = load(dataset, {TOP: Recipe([CenterCrop((8, 10))]), WRIST: WHOLE})
    batch = loader.peek()
    alone = open_dataset(root, cameras=WRIST, delta_timestamps={WRIST: DELTAS[WRIST]})
    views = load(alone, Views([CROPS, WHOLE]))

    assert batch.cameras[TOP].shape == (4, 3, 3, 8, 10)
    assert batch.cameras[WRIST].shape == (4, 2, 3, 16, 20)
    assert batch.frames is not None
    assert batch.frames.shape == (4, 5)
    assert torch.equal(batch.images, batch[TOP])
    assert list(load(dataset, {WRIST: WHOLE, TOP: WHOLE}).peek().cameras) == [TOP, WRIST]
    assert [view.shape[1] for view in batch.views] == [3, 2]
    for mine, theirs in zip(loader, views, strict=True):
        assert torch.equal(mine[WRIST], theirs.views[1])


@pytest.mark.parametrize(
    "options",
    [
        {"num_threads": 1, "execution": Execution(prefetch=1)},
        {"execution": Execution(channels_last=False), "dtype": torch.uint8},
        pytest.param(
            {"execution": Execution(channels_last=False, helper_process=1)},
            marks=pytest.mark.long,
        ),
        pytest.param(
            {"execution": Execution(helper_process=2), "dtype": torch.bfloat16},
            marks=pytest.mark.long,
        ),
    ],
    ids=["one thread", "channels first", "helper process", "two helper processes"],
)
def test_how_batches_are_made_does_not_matter(root: Path, options: dict[str, Any]) -> None:
    """Threads, helper processes and memory formats change no pixel; types round those of the usual loader."""
    recipes = {(WRIST,): Recipe(CROPS.operations[:-1]), TOP: WHOLE}
    dataset = open_dataset(root, delta_timestamps=DELTAS)
    wanted = cameras_of(load(dataset, recipes, dtype=options.get("dtype", torch.float32)))
    with load(dataset, recipes, **options) as loader:
        found = cameras_of(loader)

    assert found.keys() == {TOP, WRIST}
    assert all(are_equal(found[name], wanted[name]) for name in found)


def test_engines_agree(root: Path) -> None:
    """They make the same pictures of every group."""
    dataset = open_dataset(root, delta_timestamps=DELTAS)
    fused, *others = (
        cameras_of(load(dataset, engine=engine)) for engine in ("fused", "kornia", "albumentations")
    )
    for other in others:
        for name, pictures in fused.items():
            for index, one in pictures.items():
                assert (one - other[name][index]).abs().max() < 2 / 255 / 0.22  # as normalised


def test_functions_of_full_batches(root: Path) -> None:
    """A step of several parts, which a function takes together, is that of small steps."""
    dataset = open_dataset(root, delta_timestamps=DELTAS)
    doubling = Recipe([*WHOLE.operations, double])
    small = cameras_of(load(dataset, {WRIST: CROPS, TOP: WHOLE}))
    large = cameras_of(load(dataset, {WRIST: CROPS, TOP: doubling}, batch_size=14))

    assert are_equal(large[WRIST], small[WRIST])
    assert are_equal(large[TOP], {index: 2 * pictures for index, pictures in small[TOP].items()})


def double(images: torch.Tensor) -> torch.Tensor:
    """A step of the user's own."""
    return 2 * images


def test_canvases_for_a_gpu(root: Path) -> None:
    """What a helper process sends for a GPU are the canvases of each group, of which an engine makes the usual batch."""
    recipes = {WRIST: CROPS, TOP: Recipe([Resize((16, 20)), *WHOLE.operations[:-1]])}
    loader = load(open_dataset(root, delta_timestamps=DELTAS), recipes)
    setup, steps = loader._setup, loader.steps
    frames = tuple(
        Frame((14, *size, 3), torch.uint8, permuted=False, columns=view.columns)
        for view, size in zip(setup.views, ((24, 32), (16, 20)), strict=True)
    )
    job = replace(make_job(setup, steps, HELPER), canvases=True, frames=(frames,))

    def memory(fetched: Fetched) -> tuple[torch.Tensor, ...]:
        empty = [torch.empty(frame.size_bytes, dtype=torch.uint8) for frame in frames]
        pairs = zip(frames, empty, strict=True)
        return tuple(frame.images(one, len(fetched)) for frame, one in pairs)

    pipeline, engines = build(job, memory), Engines(setup.views, setup.fetcher.recorder)
    made = []
    for plan in steps.plans(0):
        finished, canvases = pipeline.make(plan)
        images = engines.augment(finished, canvases)
        made.append(batch_of(finished, images, setup, lambda _: None))
    pipeline.close()
    assert_same(made, list(loader))


@pytest.mark.parametrize("helper", [False, pytest.param(True, marks=pytest.mark.long)])
def test_exact_resume(root: Path, helper: bool) -> None:
    """A run goes on in the middle of an epoch on two ranks, with recipes from a saved file."""
    dataset = open_dataset(root, delta_timestamps=DELTAS)
    whole = cameras_of(load(dataset))
    with load(dataset, batch_size=3, execution=Execution(helper_process=helper)) as first:
        begun = list(islice(first, 2))
        state = first.state_dict()
    read = CameraRecipes.from_dict(BOTH.to_dict())
    rest: list[Batch] = []
    for rank in range(2):
        second = load(dataset, read, batch_size=2, rank=rank, world_size=2)
        second.load_state_dict(state)
        rest += list(second)

    found = cameras_of([*begun, *rest])
    assert sum(map(len, [*begun, *rest])) == len(dataset)
    assert all(are_equal(found[name], whole[name]) for name in (TOP, WRIST))


def test_other_groups_are_another_run(root: Path) -> None:
    """A state is refused if a recipe belongs to other cameras, and the message names them."""
    dataset = open_dataset(root)
    state = load(dataset).state_dict()
    with pytest.raises(StateMismatchError, match=f"- cameras {WRIST}: RandomResizedCrop"):
        load(dataset, {TOP: CROPS, WRIST: WHOLE}).load_state_dict(state)


def test_explain_and_replay(root: Path) -> None:
    """The loader names its groups, and makes each group's row again."""
    dataset = open_dataset(root, delta_timestamps=DELTAS)
    loader = load(dataset, {WRIST: CROPS, TOP: WHOLE})
    made = cameras_of(loader)

    assert f"camera groups, each with draws of its own: {WRIST}; {TOP}\n" in loader.explain()
    for view, name in enumerate((WRIST, TOP)):
        again = loader.replay(6, epoch=0, view=view)
        assert torch.equal(again.row, made[name][6])
        assert again.canvas.shape[0] == len(DELTAS[name])
        assert torch.allclose(again.images[-1][2], again.row, atol=1e-5)
        assert (again.header["height"], again.header["width"]) == Robot().sizes[name]


def test_schedules_and_sizes(root: Path) -> None:
    """Recipes by epoch and by size may be those of cameras, if all have the same groups."""
    dataset = open_dataset(root)
    later = CameraRecipes({TOP: CROPS, WRIST: CROPS})
    loader = load(dataset, Schedule({0: BOTH, 1: later}))
    first, second = cameras_of(loader), cameras_of(loader)
    scales = MultiScale([16, 24], every=4)
    sized = load(
        dataset,
        lambda size: {TOP: Recipe([RandomResizedCrop(size)]), WRIST: WHOLE},
        sizes=scales,
    )

    assert first[TOP][0].shape[-2:] == (16, 20)
    assert second[TOP][0].shape[-2:] == (24, 32)
    assert {batch[TOP].shape[-1] for batch in sized} == {16, 24}
    with pytest.raises(LoaderError, match="different groups of cameras"):
        load(dataset, Schedule({0: BOTH, 1: Views([CROPS, CROPS])}))


def test_mixing_in_the_first_group(root: Path) -> None:
    """A group may mix windows as a first view may: with the labels, and without the pictures of other groups."""
    dataset = open_dataset(root)
    mixing = Recipe([*CROPS.operations, MixUp(num_classes=3)])
    batch = load(dataset, {TOP: mixing, WRIST: WHOLE}, last_batch="drop").peek()
    plain = load(dataset, {TOP: CROPS, WRIST: WHOLE}, last_batch="drop").peek()

    assert batch.labels.shape == (4, 3)  # type: ignore[union-attr]
    assert not torch.equal(batch[TOP], plain[TOP])
    assert torch.equal(batch[WRIST], plain[WRIST])
    with pytest.raises(LoaderError, match="a view after the first mixes samples"):
        load(dataset, {WRIST: WHOLE, TOP: mixing})


def test_mixtures_of_several_sizes(root: Path, tmp_path: Path) -> None:
    """A camera whose size differs between datasets is drawn for in its own size."""
    other = Robot(sizes={TOP: (40, 40), WRIST: (64, 32)}).write(tmp_path)
    crops = CameraRecipes({TOP: CROPS, WRIST: CROPS})
    both = cameras_of(load(mix([open_dataset(root), open_dataset(other)]), crops, shuffle="none"))
    alone = cameras_of(load(open_dataset(root), crops, shuffle="none"))

    assert len(both[WRIST]) == 28
    for name in (TOP, WRIST):
        assert are_equal({index: both[name][index] for index in alone[name]}, alone[name])


@pytest.mark.parametrize("policy", ["skip", "replace"])
def test_a_bad_video_costs_its_own_windows(tmp_path: Path, policy: str) -> None:
    """Also where only a later group shows it; the other rows keep their pixels."""
    robot = Robot()
    robot.write(tmp_path)
    good = cameras_of(load(open_dataset(tmp_path)))
    short = tmp_path / f"videos/{WRIST}/chunk-000/file-000.mp4"
    short.unlink()
    write_video(short, robot.frames(WRIST)[:6], fps=10)  # of eight
    (tmp_path / f"videos/{WRIST}/chunk-000/file-001.mp4").unlink()
    loader = load(open_dataset(tmp_path), on_bad_sample=policy, max_bad_samples=14)
    found = cameras_of(loader)

    assert {record.index for record in loader.bad_samples} == set(range(6, 14))
    assert set(found[TOP]) == set(range(6))
    for index in range(6):
        assert found[WRIST][index].shape == good[WRIST][index].shape
    if policy == "skip":
        assert are_equal(found[TOP], {index: good[TOP][index] for index in range(6)})


@pytest.mark.parametrize(
    ("recipe", "options", "error", "says"),
    [
        ({TOP: CROPS}, {}, LoaderError, f"no recipe is for the cameras {WRIST}"),
        ({TOP: CROPS, "left": CROPS}, {}, LoaderError, "for the cameras left, which the data"),
        ({TOP: CROPS, (WRIST, TOP): CROPS}, {}, RecipeError, f"{TOP} is named twice"),
        ({(TOP, WRIST): WHOLE}, {}, LoaderError, "the cameras have 32x48 and 48x64 pixels"),
        (
            dict.fromkeys((TOP, WRIST), Recipe([TemporalReverse(), Resize((8, 8))])),
            {},
            LoaderError,
            "TemporalReverse moves frames in time",
        ),
        (BOTH, {"decoder": "dali"}, LoaderError, "does not decode the pictures of a robot"),
        (BOTH, {"sizes": MultiScale([8], every=4)}, LoaderError, "must be a function of the size"),
        ({}, {}, RecipeError, "at least one Recipe"),
    ],
)
def test_refused(
    root: Path, recipe: Any, options: dict[str, Any], error: type[Exception], says: str
) -> None:
    """What leaves a camera without one recipe, or gives it no picture of one size, is refused by name."""
    with pytest.raises(error, match=says):
        load(open_dataset(root), recipe, **options)


def test_cameras_need_names(tmp_path: Path, jpeg: Any) -> None:
    """Images and clips have no cameras."""
    images = write_images(tmp_path / "images", [jpeg(20, 20)] * 4)
    with pytest.raises(LoaderError, match=r"samples have no cameras .* give one Recipe"):
        load(images, {"top": CROPS})
    (tmp_path / "videos").mkdir()
    write_video(tmp_path / "videos/a.mp4", pan(4, (32, 32)))
    clips = Clips(open_dataset(tmp_path / "videos"), num_frames=2, stride=1)
    with pytest.raises(LoaderError, match="samples have no cameras"):
        load(clips, BOTH)
    assert load(clips, CROPS, batch_size=1).peek().cameras == {}


@pytest.mark.parametrize("recipe", [CROPS, BOTH])
def test_previews_are_refused(root: Path, recipe: Recipe | CameraRecipes) -> None:
    """They have no layout for the pictures of several cameras."""
    with pytest.raises(LoaderError, match=f"draws no pictures of the cameras {TOP}, {WRIST}"):
        preview_images(open_dataset(root), recipe, [0])


def test_threads_make_the_same_batches(root: Path) -> None:
    """All that a batch holds, also the views, is the same from run to run."""
    dataset = open_dataset(root, delta_timestamps=DELTAS)
    assert_same(list(load(dataset, num_threads=1)), list(load(dataset, num_threads=3)))
