"""Train a small convolutional network in plain JAX on batches that stay where the loader put them.

python examples/train_jax.py [DATA] --steps 60
python examples/train_jax.py [DATA] --steps 120      # goes on from train_jax.npz
"""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from arguments import parse_arguments

from dali_pipes import Loader
from dali_pipes.integrations.dlpack import to_jax
from gpu_aug import Recipe
from readers import open_dataset

WIDTHS = (3, 16, 32)
Parameters = dict[str, jax.Array]


def make_parameters(num_classes: int) -> Parameters:
    """Return two convolutions and a linear layer, drawn as He et al. 2015 do."""
    keys = jax.random.split(jax.random.key(0), len(WIDTHS))
    made = {}
    for layer, (before, after) in enumerate(pairwise(WIDTHS)):
        scale = (2 / (9 * before)) ** 0.5
        made[f"conv{layer}"] = scale * jax.random.normal(keys[layer], (3, 3, before, after))
    made["linear"] = jax.random.normal(keys[-1], (WIDTHS[-1], num_classes)) / WIDTHS[-1] ** 0.5
    return made


def loss_of(parameters: Parameters, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the mean cross-entropy; images are [B, H, W, 3], as to_jax gives them."""
    x = images
    for layer in range(len(WIDTHS) - 1):
        kernel = parameters[f"conv{layer}"]
        x = jax.lax.conv_general_dilated(
            x, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x)
    logits = jax.nn.log_softmax(x.mean((1, 2)) @ parameters["linear"])
    return -jnp.take_along_axis(logits, labels[:, None], axis=1).mean()


@jax.jit
def train_step(parameters: Parameters, batch: dict[str, Any]) -> tuple[Parameters, jax.Array]:
    """Go one step down the gradient."""
    loss, slopes = jax.value_and_grad(loss_of)(parameters, batch["images"], batch["labels"])
    return jax.tree.map(lambda value, slope: value - 0.2 * slope, parameters, slopes), loss


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Train; return the losses of this run's steps."""
    given = parse_arguments(argv, steps=120, checkpoint="train_jax.npz")
    photos = open_dataset(given.data)
    device = "cuda" if jax.default_backend() == "gpu" else "cpu"
    recipe = Recipe.imagenet_train(size=64)
    loader = Loader(photos, recipe, batch_size=16, device=device)
    parameters, step = make_parameters(len(photos.class_names)), 0
    if given.checkpoint.exists():
        with np.load(given.checkpoint) as saved:
            parameters = {name: jnp.asarray(saved[name]) for name in parameters}
            step = int(saved["step"])
            loader.load_state_dict(json.loads(str(saved["loader"])))
    if step >= given.steps:
        print(f"{given.checkpoint} is at step {step} already; give a larger --steps")

    losses: list[float] = []
    while step < given.steps:
        for batch in loader:
            parameters, loss = train_step(parameters, to_jax(batch))
            losses.append(float(loss))
            step += 1
            print(f"epoch {loader.epoch} step {step}: loss {losses[-1]:.4f}")
            if given.saves_at(step):
                with given.saving() as file:
                    state = json.dumps(loader.state_dict())
                    np.savez(file, **parameters, step=step, loader=state)
            if step >= given.steps:
                break
    return losses


if __name__ == "__main__":
    main()
