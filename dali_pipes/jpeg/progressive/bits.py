"""Sets of coefficients as bit masks: bit k is coefficient k in zigzag order.

On processors with a fast instruction that scatters bits into the set positions of a mask (pdep, BMI2), reading a
refinement takes three quarters of the time.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.cgutils import get_or_insert_function
from numba.core.registry import cpu_target

from gpu_aug.compiled.jit import inlined, intrinsic_of

ZERO, ONE = np.uint64(0), np.uint64(1)
_U63 = np.uint64(63)
# LLVM's generic levels, which imply BMI2 without naming it among the features.
_CPUS_WITH_BMI2 = ("x86-64-v3", "x86-64-v4")
# On these, pdep is a loop in microcode.
_CPUS_WITH_SLOW_PDEP = ("znver1", "znver2")


def _instruction(name: str, num_arguments: int, *flags: bool) -> Any:
    """Return an LLVM intrinsic as a function of uint64 for compiled code."""

    def typed(_context: Any, *_arguments: Any) -> Any:
        def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            kinds = [ir.IntType(64)] * num_arguments + [ir.IntType(1)] * len(flags)
            kind = ir.FunctionType(ir.IntType(64), kinds)
            callee = get_or_insert_function(builder.module, kind, name)
            constants = [ir.Constant(ir.IntType(1), int(flag)) for flag in flags]
            return builder.call(callee, [*arguments, *constants])

        return types.uint64(*[types.uint64] * num_arguments), generate

    return intrinsic_of(typed, num_arguments)


count = _instruction("llvm.ctpop.i64", 1)
"""Return the number of set bits."""

lowest = _instruction("llvm.cttz.i64", 1, False)
"""Return the index of the lowest set bit; 64 if no bit is set."""


def _deposit(word: Any, members: Any) -> Any:
    found = ZERO
    while members != ZERO:
        rest = members & (members - ONE)
        found |= (members ^ rest) & (ZERO - (word >> _U63))
        word <<= ONE
        members = rest
    return found


def _choose(members: Any, number: int) -> Any:
    while number > 0:
        members &= members - ONE
        number -= 1
    return members & (ZERO - members)


def _at_once() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return `deposit` and `choose` implemented with pdep."""
    spread, reverse = (
        _instruction("llvm.x86.bmi.pdep.64", 2),
        _instruction("llvm.bitreverse.i64", 1),
    )

    def deposit(word: Any, members: Any) -> Any:
        return spread(reverse(word), members)

    def choose(members: Any, number: int) -> Any:
        return spread(ONE << np.uint64(number), members)

    return deposit, choose


def has_fast_pdep() -> bool:
    """Return whether code is compiled for a processor with a fast pdep instruction."""
    _triple, name, features = cpu_target.target_context.codegen().magic_tuple()
    return name not in _CPUS_WITH_SLOW_PDEP and (name in _CPUS_WITH_BMI2 or "+bmi2" in features)


one_by_one = inlined(_deposit), inlined(_choose)
"""`deposit` and `choose` for any processor."""

deposit, choose = map(inlined, _at_once()) if has_fast_pdep() else one_by_one
"""deposit(word, members): Scatter the top bits of a word into the set positions of `members`, the highest bit into the
lowest position (pdep of the reversed word). choose(members, number): Return only the set bit of `members` with `number`
set bits below it; 0 if no bit is."""
