"""The operations of a recipe: what each means and how its parameters are drawn.

A file lists its operations in its ``__all__``; they are then names of this package and of gpu_aug.
"""

from gpu_aug.ops.affine import *
from gpu_aug.ops.colour import *
from gpu_aug.ops.combine import *
from gpu_aug.ops.erase import *
from gpu_aug.ops.filters import *
from gpu_aug.ops.geometry import *
from gpu_aug.ops.operation import Operation
