"""What a loader will do and why, in lines for people."""

from collections.abc import Sequence

from dali_pipes.pipeline.augment import View
from dali_pipes.pipeline.fetch import Workshop
from dali_pipes.ranks import Ranks
from dali_pipes.schedule import Schedule
from dali_pipes.targets import KINDS
from readers.plural import counted
from readers.video.oddities import told


def explain(
    reasons: Sequence[str],
    views: Sequence[View],
    schedule: Schedule,
    workshop: Workshop,
    num_classes: int | None,
    threads: str,
    ranks: Ranks,
) -> str:
    """Return one line for each choice, stage and setting."""
    lines = list(reasons)
    if len(views) > 1:
        lines.append(
            f"views: {len(views)} of each sample, which is read and decoded once; labels and targets "
            f"are those of the first"
        )
    if workshop.clips is not None:
        steps = ", then ".join(map(repr, views[0].recipe.temporal_operations))
        lines.append(
            f"clips: {workshop.num_frames} frames each{', chosen with ' * bool(steps)}{steps}"
        )
        lines += [f"videos: {name}: {text}" for name, text in told(workshop.clips.peculiar())]
    for view in views:
        lines += _stages(view)
    if schedule.group > 1:
        labels = f"float32 {[schedule.batch_size, num_classes]}" if num_classes else "as they are"
        lines.append(
            f"mixing: among {schedule.group} neighbours in the order, the same on any number of ranks; "
            f"labels: {labels}"
        )
    kinds = [kind for kind in KINDS if kind in workshop.targets.kinds]
    lines.append(
        f"targets: {', '.join(kinds)}, where samples have them" if kinds else "targets: none"
    )
    left_out = schedule.length % schedule.global_batch
    unit = "image" if workshop.clips is None else "clip"
    lines.append(
        f"order: {counted(schedule.length, 'sample')}, shuffle: {workshop.order.name}, "
        f"{counted(schedule.num_steps(), 'step')} of {counted(schedule.global_batch, unit)}, "
        f"rank {schedule.rank} of {schedule.world_size}, last batch: {schedule.last_batch}"
        + (f", which leaves {left_out} out" if schedule.last_batch == "drop" and left_out else "")
    )
    if (other := ranks.other()) is not None:
        lines.append(f"rank and world size: as given, though this process is {other}")
    return "\n".join([*lines, threads])


def _stages(view: View) -> list[str]:
    recipe, size = view.recipe, view.recipe.decode_size
    decode = ", ".join(map(repr, recipe.decode_operations)) or "whole images"
    canvas = "of several sizes" if size is None else str([*size, 3])
    after = recipe.image_operations[len(recipe.decode_operations) :]
    batch = ", ".join(map(repr, after)) or "nothing"
    dtype = str(view.dtype).removeprefix("torch.")
    single = recipe.num_single_leaves
    one_by_one = f", the first {single} image by image" if single else ""
    return [
        f"decode stage: {decode} -> uint8 {canvas}",
        f"batch stage: {batch} -> {dtype} {[3, *recipe.fixed_size]}{one_by_one}",
    ]
