"""The operations of a recipe: what each means and how its parameters are drawn.

A file lists its operations in its ``__all__``; they are then names of this package and of gpu_aug.
"""

from gpu_aug.ops.affine import *
from gpu_aug.ops.blurs import *
from gpu_aug.ops.boxes import *
from gpu_aug.ops.colour import *
from gpu_aug.ops.combine import *
from gpu_aug.ops.crops import *
from gpu_aug.ops.degrade import *
from gpu_aug.ops.distort import *
from gpu_aug.ops.dropout import *
from gpu_aug.ops.edges import *
from gpu_aug.ops.elastic import *
from gpu_aug.ops.erase import *
from gpu_aug.ops.filters import *
from gpu_aug.ops.foreign import *
from gpu_aug.ops.geometry import *
from gpu_aug.ops.grids import *
from gpu_aug.ops.image_matrices import *
from gpu_aug.ops.jitter import *
from gpu_aug.ops.lens import *
from gpu_aug.ops.matrices import *
from gpu_aug.ops.mix import *
from gpu_aug.ops.noise import *
from gpu_aug.ops.operation import Operation
from gpu_aug.ops.pads import *
from gpu_aug.ops.perspective import *
from gpu_aug.ops.policy import *
from gpu_aug.ops.random_resizes import *
from gpu_aug.ops.resized_crops import *
from gpu_aug.ops.resizes import *
from gpu_aug.ops.rotate import *
from gpu_aug.ops.sensor import *
from gpu_aug.ops.shading import *
from gpu_aug.ops.stains import *
from gpu_aug.ops.steps import *
from gpu_aug.ops.tables import *
from gpu_aug.ops.temporal import *
