"""Compare the losses of examples/robot_policy.py with those of the same training on lerobot's own loader.

    python -m tests.support.check_robot_policy FOLDER --lerobot PYTHON [--steps 200]

The policy is trained twice from the same weights, without augmentation: on the batches of a `Loader`, and on those that a DataLoader over
lerobot's class makes of the same samples in the same order. The losses of each step must agree within 1 %. A third training, whose
pictures come one sample late, shows that the losses depend on them. PYTHON is the interpreter of an environment with lerobot, see
tests/support/check_lerobot.py.
"""

import argparse
import json
import runpy
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dali_pipes import Loader
from tests.support.check_lerobot import run_lerobot

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LIMIT = 0.01


def main() -> None:
    """Train, compare and print the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lerobot", required=True, help="Python of an environment with lerobot")
    parser.add_argument("--steps", type=int, default=200)
    given = parser.parse_args()
    sys.path.insert(0, str(EXAMPLES))
    example = runpy.run_path(str(EXAMPLES / "robot_policy.py"))
    data = given.folder / "robot"
    if not data.exists():
        example["make_robot"](data)
    robot = example["open_robot"](data)
    order: list[list[int]] = []
    ours = _train(example, data, _our_batches(example, robot, given.steps, order))
    deltas = {"action": [step / robot.info.fps for step in range(example["CHUNK"])]}
    options, out = given.folder / "order.json", given.folder / "batches.npz"
    options.write_text(json.dumps({"order": order, "deltas": deltas}))
    run_lerobot(given.lerobot, "batches", data, str(options), out)
    with np.load(out) as stored:
        theirs = _train(example, data, _their_batches(example, robot, stored, given.steps, late=0))
        late = _train(example, data, _their_batches(example, robot, stored, given.steps, late=1))
    off = np.abs(ours - theirs) / theirs
    sys.stdout.write(
        f"{given.steps} steps: losses {ours[0]:.4f} to {ours[-1]:.4f} here, {theirs[0]:.4f} to {theirs[-1]:.4f} with lerobot; they "
        f"differ by at most {off.max():.3%}, {off.mean():.4%} on average; with pictures of other samples by "
        f"{(np.abs(late - theirs) / theirs).mean():.0%} on average\n"
    )
    if off.max() > LIMIT:
        raise SystemExit(f"losses differ by more than {LIMIT:.0%}")


def _train(example: dict[str, Any], data: Path, batches: Iterable[Any]) -> Any:
    """Return the losses of a training, float64 [steps]."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # sums of several threads may differ from run to run
    robot = example["open_robot"](data)
    policy = example["Policy"](robot)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=example["LEARNING_RATE"])
    scale = example["deviation_of_actions"](robot)
    losses = []
    for images, fields in batches:
        loss = example["loss_of"](policy, images, fields, scale)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def _our_batches(
    example: dict[str, Any], robot: Any, steps: int, order: list[list[int]]
) -> Iterator[tuple[torch.Tensor, Any]]:
    """Yield pictures and fields of a Loader's batches; add the indices of each to `order`."""
    size, fields = example["BATCH_SIZE"], example["FIELDS"]
    loader = Loader(
        robot, example["TEST"], batch_size=size, fields=fields, device="cpu", last_batch="partial"
    )
    while True:
        for batch in loader:
            order.append(batch.indices.tolist())
            yield batch.images, batch.fields
            if len(order) == steps:
                return


def _their_batches(
    example: dict[str, Any], robot: Any, stored: Any, steps: int, *, late: int
) -> Iterator[tuple[torch.Tensor, Any]]:
    """Yield pictures and fields of lerobot's batches, the pictures of a batch shifted by `late` samples."""
    last = example["LAST"]
    mean, std = (torch.tensor(each)[:, None, None] for each in (last.mean, last.std))
    for step in range(steps):
        pictures = [torch.from_numpy(stored[f"{step}/{camera}"]) for camera in robot.cameras]
        images = (torch.stack(pictures, 1).float() / 255 - mean) / std
        fields = {name: torch.from_numpy(stored[f"{step}/{name}"]) for name in example["FIELDS"]}
        yield images.roll(late, 0), fields


if __name__ == "__main__":
    main()
