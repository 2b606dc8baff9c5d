"""Our iterators against DALI's own, over the same folder of photographs."""

import inspect
import json
import logging
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from dali_pipes import Loader, LoaderError, StateMismatchError
from dali_pipes.decode.dali.feed import Feed, FeedOptions
from dali_pipes.integrations import dali as plugin
from dali_pipes.integrations.dali import (
    DALIClassificationIterator,
    DALIGenericIterator,
    LastBatchPolicy,
)
from dali_pipes.stages import dali_feeds as make
from gpu_aug import CenterCrop, HorizontalFlip, MixUp, Recipe, Views
from readers import open_dataset
from tests.support.loaders import loader_maker

BATCH = 2
SIDE = 24
POLICIES = list(LastBatchPolicy)
# Divided by every number of shards and by the batch, by none, and with a shard of a single sample.
LENGTHS = [12, 7, 5]
SHARDS = [1, 2, 3]
IMAGES = Recipe([CenterCrop(SIDE)])


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[int, Path]:
    """A folder for each length, in which every sample has a class of its own."""
    root = tmp_path_factory.mktemp("plugin")
    noise = np.random.default_rng(0).integers(0, 256, (max(LENGTHS), SIDE, SIDE, 3), np.uint8)
    for length in LENGTHS:
        for number in range(length):
            path = root / str(length) / f"{number:02}" / "image.jpg"
            path.parent.mkdir(parents=True)
            Image.fromarray(noise[number]).save(path, quality=80)
    return {length: root / str(length) for length in LENGTHS}


def dali_pipelines(
    folder: Path, num_shards: int = 1, checkpoints: list[bytes] | None = None, **reader: Any
) -> list[Any]:
    """One pipeline for each shard, [images uint8 CHW, labels]."""
    from nvidia.dali import fn, pipeline_def

    @pipeline_def(batch_size=BATCH, num_threads=1, device_id=None, enable_checkpointing=True)
    def pipeline(shard: int) -> Any:
        encoded, labels = fn.readers.file(
            file_root=str(folder), name="Reader", shard_id=shard, num_shards=num_shards, **reader
        )
        return fn.transpose(fn.decoders.image(encoded), perm=[2, 0, 1]), labels

    return [
        pipeline(shard, **({"checkpoint": checkpoints[shard]} if checkpoints else {}))
        for shard in range(num_shards)
    ]


def dali_iterator(pipelines: list[Any], policy: LastBatchPolicy, **options: Any) -> Any:
    """DALI's DALIClassificationIterator."""
    from nvidia.dali.plugin import pytorch

    options = {"reader_name": "Reader", **options}
    options["last_batch_policy"] = pytorch.LastBatchPolicy[policy.name]
    return pytorch.DALIClassificationIterator(pipelines, **options)


make_loader = loader_maker(
    IMAGES,
    batch_size=BATCH,
    decoder="auto",
    shuffle="none",
    dtype=torch.uint8,
    last_batch="partial",
)


def our_loaders(folder: Path, num_shards: int = 1, **options: Any) -> list[Loader]:
    """One loader for each rank, in the order of the folder."""
    dataset, world = open_dataset(folder), {"world_size": num_shards, **options}
    return [make_loader(dataset, rank=rank, **world) for rank in range(num_shards)]


def our_iterator(folder: Path, policy: LastBatchPolicy, num_shards: int = 1, **options: Any) -> Any:
    """Our DALIClassificationIterator over new loaders."""
    loaders = our_loaders(folder, num_shards)
    return DALIClassificationIterator(
        loaders, reader_name="Reader", last_batch_policy=policy, **options
    )


def resumed(checkpoint: bytes, folder: Path, *size: int, **options: Any) -> Any:
    """Our DALIClassificationIterator over a new loader that goes on from a checkpoint."""
    (loader,) = our_loaders(folder)
    loader.load_state_dict(json.loads(checkpoint))
    options = {"last_batch_policy": LastBatchPolicy.PARTIAL, **options}
    return DALIClassificationIterator(loader, *size, **options)


def labels_of(steps: Iterable[list[dict[str, torch.Tensor]]]) -> list[list[list[int]]]:
    """The labels of each step and rank."""
    return [[batch["label"][:, 0].tolist() for batch in step] for step in steps]


def sizes(steps: list[list[list[int]]], *, by_rank: bool = True) -> list[list[int]]:
    """Samples of each step on each rank, or sorted where the ranks may be others."""
    counts = [[len(labels) for labels in step] for step in steps]
    return counts if by_rank else [sorted(step) for step in counts]


def counted(steps: list[list[list[int]]]) -> Counter[int]:
    """How often each sample was handed over."""
    return Counter(label for step in steps for labels in step for label in labels)


cases = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
lengths = pytest.mark.parametrize("length", LENGTHS)
shards = pytest.mark.parametrize("num_shards", SHARDS)

# All but what has no steps, which we refuse: see below.
EVERYTHING = [
    pytest.param(length, num_shards, policy, id=f"{length}-{num_shards}-{policy.name}")
    for length in LENGTHS
    for num_shards in SHARDS
    for policy in POLICIES
    if policy is not LastBatchPolicy.DROP or length >= BATCH * num_shards
]
everything = pytest.mark.parametrize(("length", "num_shards", "policy"), EVERYTHING)


@pytest.mark.needs_dali
@cases
@lengths
@pytest.mark.parametrize("padded", [False, True], ids=["wrapped", "padded"])
def test_first_epoch_is_that_of_dali(folders, length, policy, padded):
    """Labels, pixels and their types are equal, step by step; what fills up may be other samples."""
    pipelines = dali_pipelines(folders[length], pad_last_batch=padded)
    theirs = list(dali_iterator(pipelines, policy))
    ours = list(our_iterator(folders[length], policy))

    assert len(ours) == len(theirs)
    for ((their_batch,), (our_batch,)), left in zip(
        zip(theirs, ours, strict=True), range(length, -BATCH, -BATCH), strict=False
    ):
        own = slice(0, left if padded else BATCH)
        for name in ("data", "label"):
            ours_, theirs_ = our_batch[name], their_batch[name]
            assert (ours_.dtype, ours_.shape) == (theirs_.dtype, theirs_.shape)
            assert torch.equal(ours_[own], theirs_[own])
    assert not torch.equal(ours[0][0]["data"][0], theirs[0][0]["data"][1])


@pytest.mark.needs_dali
@pytest.mark.parametrize(
    "stick",
    [
        pytest.param(False, id="moving"),
        pytest.param(True, id="sticking", marks=pytest.mark.long),
    ],
)
@everything
def test_padded_epochs_are_those_of_dali(folders, num_shards, length, policy, stick):
    """Two epochs: as many steps, as many samples on each rank and step; and every sample as often, but for DROP."""
    reader = {"pad_last_batch": True, "stick_to_shard": stick}
    theirs = dali_iterator(dali_pipelines(folders[length], num_shards, **reader), policy)
    ours = our_iterator(folders[length], policy, num_shards)
    for epoch in range(2):
        assert (len(ours), ours.size) == (len(theirs), theirs.size)
        their_steps, our_steps = labels_of(theirs), labels_of(ours)
        assert len(our_steps) == len(ours)
        by_rank = stick or epoch == 0
        assert sizes(our_steps, by_rank=by_rank) == sizes(their_steps, by_rank=by_rank)
        theirs_counted, ours_counted = counted(their_steps), counted(our_steps)
        if policy is LastBatchPolicy.PARTIAL:
            assert ours_counted == theirs_counted == Counter(range(length))
        elif policy is LastBatchPolicy.FILL:
            assert set(ours_counted) == set(theirs_counted) == set(range(length))
        else:
            assert set(ours_counted.values()) == {1}
            # From the second epoch on DALI's shards that move hand over padding, too.
            assert epoch or ours_counted.total() == len(theirs_counted)


@pytest.mark.needs_dali
@pytest.mark.parametrize(
    ("policy", "num_shards"),
    [(LastBatchPolicy.FILL, 1), (LastBatchPolicy.PARTIAL, 2)],
    ids=["FILL", "PARTIAL"],
)
def test_no_epoch_lacks_what_dali_has_read_ahead(folders, policy, num_shards):
    """DALI's second epoch goes on after what filled up the first; ours begins anew and has every sample."""
    theirs = dali_iterator(dali_pipelines(folders[7], num_shards), policy)
    ours = our_iterator(folders[7], policy, num_shards)
    labels_of(theirs), labels_of(ours)
    num_steps = len(ours)

    assert set(counted(labels_of(theirs))) < set(range(7))
    assert (set(counted(labels_of(ours))), len(ours)) == (set(range(7)), num_steps)


@lengths
@shards
def test_fill_repeats_the_start_of_the_order(folders, num_shards, length):
    """The samples that fill up are the first of the epoch, and "valid" tells them apart."""
    loaders = our_loaders(folders[length], num_shards)
    steps = list(DALIGenericIterator(loaders, ["data", "label", "valid"]))
    batches = list(chain(*steps))
    filling = torch.cat([batch["label"][~batch["valid"], 0] for batch in batches]).tolist()
    assert filling == [number % length for number in range(-length % (BATCH * num_shards))]
    assert {len(batch["label"]) for batch in batches} == {BATCH}


def consume(iterator: Any, script: str) -> list[Any]:
    """Do what a script of letters says: n(ext), r(eset), i(ter), e(poch); and note what came of it."""
    notes: list[Any] = []
    for letter in script:
        if letter == "r":
            iterator.reset()
        elif letter == "i":
            iter(iterator)
        elif letter == "e":
            notes.append([step[0]["label"][:, 0].tolist() for step in iterator])
        else:
            try:
                notes.append(iterator.next()[0]["label"][:, 0].tolist())
            except StopIteration:
                notes.append("end")
    return notes


@pytest.mark.needs_dali
@cases
@pytest.mark.parametrize(
    ("script", "auto_reset"),
    [("nnnnnn", name) for name in (None, "no", "yes")]  # three names for no, two for yes
    + [
        (script, auto_reset)
        for auto_reset in (False, True)
        for script in (
            "ee",  # epochs
            "nnnnnnnnnn",  # on after the end without a reset
            "nre",  # a reset in the middle is ignored
            "ne",  # a loop that was left is gone on with
            "nnnrn",  # a reset after as many steps as DROP has
            "nnnnrnnnnrn",  # a reset after all steps, before the end was noticed
            "nnnnnrnnnnnrn",  # and after it
            "nnnnnine",  # iter after the end
            "re",  # a reset of what was never used
        )
    ],
)
def test_resets_are_those_of_dali(folders, script, policy, auto_reset):
    """The same calls bring the same labels and the same ends of epochs."""
    pipelines = dali_pipelines(folders[7], pad_last_batch=True)
    theirs = consume(dali_iterator(pipelines, policy, auto_reset=auto_reset), script)
    ours = consume(our_iterator(folders[7], policy, auto_reset=auto_reset), script)
    if policy is LastBatchPolicy.FILL:
        theirs = replace_everywhere(theirs, [6, 6], [6, 0])  # what fills up is another sample
    assert ours == theirs


def replace_everywhere(notes: Any, old: list[int], new: list[int]) -> Any:
    if not isinstance(notes, list) or notes == old:
        return new if notes == old else notes
    return [replace_everywhere(note, old, new) for note in notes]


def test_a_reset_in_the_middle_says_so(folders, caplog):
    """As DALI logs it."""
    iterator = our_iterator(folders[7], LastBatchPolicy.PARTIAL)
    next(iterator)
    with caplog.at_level(logging.WARNING):
        iterator.reset()
    assert "before the end of an epoch is ignored" in caplog.text


def test_a_reset_does_not_skip_what_is_prepared(folders):
    """An epoch of one step that was made and not yet handed over is still to come."""
    iterator = our_iterator(folders[5], LastBatchPolicy.PARTIAL, 3)
    iterator.reset()
    assert json.loads(iterator.checkpoints()[0])["epoch"] == 0
    assert counted(labels_of(iterator)) == Counter(range(5))


@pytest.mark.needs_dali
@pytest.mark.parametrize("script", ["eee", "nnnnrnnnnrn"], ids=["loops", "resets"])
def test_epochs_share_the_loaders_pipeline(folders, monkeypatch, script):
    """However an epoch ends, the loader's loop is run to its end, and what decodes serves the next."""
    built = []

    class Counted(Feed):
        def __init__(self, options: FeedOptions) -> None:
            built.append(options)
            super().__init__(options)

    monkeypatch.setattr(make, "Feed", Counted)
    (loader,) = our_loaders(folders[7], decoder="dali")
    iterator = DALIClassificationIterator(loader, last_batch_policy=LastBatchPolicy.PARTIAL)
    consume(iterator, script)
    assert (loader.epoch, len(built)) == (2, 1)


@pytest.mark.needs_dali
@pytest.mark.parametrize("auto_reset", [False, True])
@pytest.mark.parametrize("num_taken", [0, 1, 4, 5, 6])
@pytest.mark.parametrize("prepare", [False, True], ids=["lazy", "prepared"])
def test_checkpoints_resume_where_those_of_dali_do(folders, num_taken, auto_reset, prepare):
    """At the start, within an epoch, at its last step, after its end, and in the next one.

    DALI goes on from a last step with an epoch without steps, these iterators with the next.
    """
    policy = LastBatchPolicy.PARTIAL
    script = "n" * num_taken if auto_reset or num_taken < 5 else "nnnnnr" + "n" * (num_taken - 5)
    options = {"auto_reset": auto_reset, "prepare_first_batch": prepare}

    theirs = dali_iterator(dali_pipelines(folders[7], pad_last_batch=True), policy, **options)
    before = consume(theirs, script)
    pipelines = dali_pipelines(folders[7], 1, theirs.checkpoints(), pad_last_batch=True)
    iterator = dali_iterator(pipelines, policy, **options)
    if num_taken == 4 and not (auto_reset and prepare):
        assert consume(iterator, "n") == ["end"]
        iterator.reset()
    expected = consume(iterator, "nnnnnn")

    ours = our_iterator(folders[7], policy, **options)
    assert consume(ours, script) == before
    again = resumed(ours.checkpoints()[0], folders[7], **options)
    assert consume(again, "nnnnnn") == expected


def test_a_checkpoint_resumes_on_another_number_of_ranks(folders):
    """What two ranks have left is taken up by three."""
    ours = our_iterator(folders[12], LastBatchPolicy.PARTIAL, 2)
    before = labels_of([next(ours)])
    loaders = our_loaders(folders[12], 3)
    for loader in loaders:
        loader.load_state_dict(json.loads(ours.checkpoints()[1]))
    after = labels_of(
        DALIClassificationIterator(loaders, last_batch_policy=LastBatchPolicy.PARTIAL)
    )
    assert (counted(before) + counted(after), len(counted(before))) == (Counter(range(12)), 4)


def test_a_checkpoint_belongs_to_its_data(folders):
    """Another folder's is refused."""
    ours = our_iterator(folders[12], LastBatchPolicy.PARTIAL)
    with pytest.raises(StateMismatchError, match="length is 12 in the state and 7 here"):
        resumed(ours.checkpoints()[0], folders[7])


@pytest.mark.needs_dali
@cases
@pytest.mark.parametrize("size", [3, 4, 7])
@pytest.mark.filterwarnings("ignore:Please set `reader_name`")
def test_size_ends_epochs_as_in_dali(folders, size, policy):
    """As many steps of as many samples, from the start of the order in the first epoch."""
    reader = dali_pipelines(folders[7], pad_last_batch=True)
    options = {"size": size, "reader_name": None, "last_batch_padded": True}
    theirs = dali_iterator(reader, policy, **options)
    (loader,) = our_loaders(folders[7])
    ours = DALIClassificationIterator(loader, size, last_batch_policy=policy)
    assert (len(ours), ours.size) == (len(theirs), theirs.size)
    steps = labels_of(ours)
    assert sizes(steps) == sizes(labels_of(theirs))
    valid = [label for (labels,) in steps for label in labels][:size]
    assert (valid, counted(labels_of(ours))) == (list(range(len(valid))), counted(steps))


def test_a_shard_that_was_rounded_is_the_whole(folders):
    """A script that gives the length divided by the number of ranks loses no sample."""
    for size in (3, 4):
        parts = [
            DALIClassificationIterator(loader, size, last_batch_policy=LastBatchPolicy.PARTIAL)
            for loader in our_loaders(folders[7], 2)
        ]
        assert counted(labels_of(chain(*parts))) == Counter(range(7))


def test_an_epoch_cut_short_is_resumed(folders):
    """Its end is the end of the epoch in a checkpoint, too."""
    (loader,) = our_loaders(folders[7])
    ours = DALIClassificationIterator(loader, 3, last_batch_policy=LastBatchPolicy.PARTIAL)
    epoch = [[[0, 1]], [[2]]]
    for left in ([[[2]]], epoch):
        next(ours)
        again = resumed(ours.checkpoints()[0], folders[7], 3)
        assert [labels_of(again) for _ in range(2)] == [left, epoch]


@pytest.mark.needs_dali
@cases
def test_policies_of_dali_are_known(folders, policy):
    """A script may keep the import of its enumeration."""
    from nvidia.dali.plugin.base_iterator import LastBatchPolicy as Theirs

    assert [(one.name, one.value) for one in Theirs] == [(one.name, one.value) for one in POLICIES]
    ours, same = (our_iterator(folders[7], one) for one in (policy, Theirs[policy.name]))
    assert labels_of(same) == labels_of(ours)


@pytest.mark.needs_dali
@pytest.mark.parametrize("name", ["DALIGenericIterator", "DALIClassificationIterator"])
def test_arguments_are_those_of_dali(name):
    """The same names in the same order, with the same defaults."""
    from nvidia.dali.plugin import pytorch

    def signature(module: Any) -> list[tuple[str, Any]]:
        parameters = inspect.signature(getattr(module, name)).parameters.values()
        return [(one.name, getattr(one.default, "name", one.default)) for one in parameters]

    assert signature(plugin) == signature(pytorch)


def test_fill_last_batch_is_the_older_name(folders):
    """True is FILL and False is PARTIAL, whatever the policy says, and both are deprecated."""
    for fill, last in ((True, [6, 0]), (False, [6])):
        with pytest.warns(DeprecationWarning, match="use last_batch_policy"):
            ours = our_iterator(folders[7], LastBatchPolicy.DROP, fill_last_batch=fill)
        assert labels_of(ours)[-1] == [last]


def test_no_batch_is_made_before_it_is_asked_for(folders):
    """With prepare_first_batch=False; with True the state still is that of what was handed over."""
    for prepare in (False, True):
        (loader,) = our_loaders(folders[7])
        ours = DALIClassificationIterator(
            loader, last_batch_policy=LastBatchPolicy.PARTIAL, prepare_first_batch=prepare
        )
        assert loader.state_dict()["consumed"] == (BATCH if prepare else 0)
        assert json.loads(ours.checkpoints()[0])["consumed"] == 0


def test_outputs_have_the_names_of_the_map(folders):
    """Views first, then labels, then attributes of a batch."""
    (loader,) = our_loaders(folders[7], recipe=Views([IMAGES, Recipe([CenterCrop(8)])]))
    ((batch,), *_) = DALIGenericIterator(loader, ["large", "small", "class", "keys"])
    assert batch["large"].shape == (BATCH, 3, SIDE, SIDE)
    assert (batch["small"].shape, batch["class"].tolist()) == ((BATCH, 3, 8, 8), [[0], [1]])
    assert [Path(key).parent.name for key in batch["keys"]] == ["00", "01"]


@pytest.mark.parametrize("name", ["mask", "masks"])
def test_masks_go_by_their_name(folders, tmp_path, name):
    """Wherever it stands, a mask's name is never that of the labels; another name is a place."""
    for number in range(BATCH):
        picture = folders[7] / f"{number:02}" / "image.jpg"
        (tmp_path / f"{number}.jpg").write_bytes(picture.read_bytes())
        mask = Image.fromarray(np.full((SIDE, SIDE), 5 + number, np.uint8))
        mask.save(tmp_path / f"{number}.mask.png")
    for names in (["image", name], [name, "valid", "image"], ["image", "class", name]):
        (loader,) = our_loaders(tmp_path)
        [batch] = next(DALIGenericIterator(loader, names))
        assert (list(batch), batch["image"].shape) == (names, (BATCH, 3, SIDE, SIDE))
        assert (batch[name].shape, batch[name][:, 0, 0].tolist()) == ((BATCH, SIDE, SIDE), [5, 6])
    assert batch["class"].shape == (BATCH, 1)


@pytest.mark.needs_dali
@pytest.mark.filterwarnings("ignore:Please set `reader_name`")
def test_fractions_of_a_size_are_cut_off_as_in_dali(folders):
    """What a script gets that divides by the number of ranks, not rounding."""
    options = {"size": 7 / 2, "last_batch_policy": LastBatchPolicy.PARTIAL}
    theirs = dali_iterator(
        dali_pipelines(folders[7]), LastBatchPolicy.PARTIAL, size=7 / 2, reader_name=None
    )
    (whole,), (shard, _) = our_loaders(folders[7]), our_loaders(folders[7], 2)
    ours, part = (DALIClassificationIterator(loader, **options) for loader in (whole, shard))
    assert (ours.size, len(ours)) == (part.size, len(part)) == (theirs.size, len(theirs)) == (3, 2)
    assert sizes(labels_of(ours)) == sizes(labels_of(theirs)) == [[2], [1]]


def test_after_a_bad_sample_the_next_epoch_is_there(folders, tmp_path):
    """The error ends the epoch; a reset begins the next one, and until then the checkpoint is of before."""
    for number in range(7):
        path = tmp_path / f"{number}" / "image.jpg"
        path.parent.mkdir()
        path.write_bytes((folders[7] / f"{number:02}" / "image.jpg").read_bytes())
    (tmp_path / "3" / "image.jpg").write_bytes(b"no picture")
    ours = our_iterator(tmp_path, LastBatchPolicy.PARTIAL)
    assert labels_of([next(ours)]) == [[[0, 1]]]
    with pytest.raises(RuntimeError, match="is bad"):
        next(ours)
    assert json.loads(ours.checkpoints()[0])["consumed"] == 2
    with pytest.raises(StopIteration):
        next(ours)
    ours.reset()
    assert labels_of([next(ours)]) == [[[0, 1]]]


def test_a_step_that_failed_on_one_loader_is_not_counted_by_another(folders, tmp_path):
    """Nobody was handed it, so every checkpoint is of before."""
    for number in range(12):
        picture = (folders[12] / f"{number:02}" / "image.jpg").read_bytes()
        (tmp_path / f"{number:02}.jpg").write_bytes(b"no picture" if number == 7 else picture)
    ours = DALIClassificationIterator(our_loaders(tmp_path, 2))
    next(ours)
    with pytest.raises(RuntimeError, match="is bad"):
        next(ours)
    assert [json.loads(state)["consumed"] for state in ours.checkpoints()] == [4, 4]


def bad_arguments(folders: dict[int, Path]) -> dict[str, tuple[list[Any], dict[str, Any], str]]:
    one, two = our_loaders(folders[7]), our_loaders(folders[7], 2)
    flip = our_loaders(folders[7], 2, recipe=Recipe([CenterCrop(SIDE), HorizontalFlip()]))
    views = our_loaders(folders[7], recipe=Views([IMAGES, IMAGES]))
    mixing = Recipe([CenterCrop(SIDE), MixUp(num_classes=7)])
    mixed = our_loaders(folders[7], recipe=mixing, dtype=torch.float32)
    return {
        "pipeline": ([object()], {}, "must be a Loader, or a list of them, got <object"),
        "nothing": ([], {}, "must be a Loader, or a list of them, got none"),
        "twice": ([two[0], two[0]], {}, r"different ranks of one run, got ranks=\[0, 0\]"),
        "world": ([one[0], two[1]], {}, "same world_size, got 1 and 2"),
        "recipe": ([two[0], flip[1]], {}, "differ in recipe"),
        "views": (views, {}, "returns one view, but the recipe has 2"),
        "auto_reset": (one, {"auto_reset": "maybe"}, "auto_reset='maybe' is not known"),
        "policy": (one, {"last_batch_policy": "FILL"}, "last_batch_policy='FILL' is not known"),
        "both": (one, {"reader_name": "Reader", "size": 7}, "exclude each other"),
        "size": (one, {"size": 8}, "size=8 is not allowed: an epoch has 7 samples"),
        "zero": (one, {"size": 0}, "size=0 is not allowed"),
        "group": (mixed, {"size": 5}, "within a group of 2 samples"),
        "no step": (one, {"size": 1, "last_batch_policy": LastBatchPolicy.DROP}, "no full batch"),
    }


BAD = [
    "pipeline",
    "nothing",
    "twice",
    "world",
    "recipe",
    "views",
    "auto_reset",
    "policy",
    "both",
    "size",
    "zero",
    "group",
]


@pytest.mark.parametrize("name", [*BAD, "no step"])
def test_wrong_arguments_are_refused_in_words(folders, name):
    """Before anything is handed over."""
    loaders, options, words = bad_arguments(folders)[name]
    with pytest.raises(LoaderError, match=words):
        DALIClassificationIterator(loaders, **options)


@pytest.mark.parametrize(
    ("output_map", "words"),
    [
        (["data", "data"], "different names"),
        ("data", "different names"),
        ([], "too few names"),
        (["data", "label", "colour"], "there is no 'colour'; allowed are images, labels"),
    ],
    ids=["twice", "text", "none", "unknown"],
)
def test_wrong_output_maps_are_refused_in_words(folders, output_map, words):
    """They name what there is."""
    (loader,) = our_loaders(folders[7])
    with pytest.raises(LoaderError, match=words):
        DALIGenericIterator(loader, output_map)
