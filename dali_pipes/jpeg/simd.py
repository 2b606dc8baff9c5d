"""Explicit vector instructions for compiled code.

The compiler does not find vector instructions for loops over pixels that are short or reorder bytes, so they are
written out here. `Lanes` is a vector of integers inside a function that builds LLVM code for Numba. The result runs on
any processor: LLVM splits the vectors to the available width.
"""

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import types

from gpu_aug.compiled.jit import intrinsic_of

Builder = Any


def _combining(operation: str) -> Callable[["Lanes", "Lanes | int"], "Lanes"]:
    """Return the method of `Lanes` for an operator, such as `__add__`, given the name of LLVM's builder method."""

    def combine(self: "Lanes", other: "Lanes | int") -> "Lanes":
        right = (
            ir.Constant(self.value.type, [other] * self.count)
            if isinstance(other, int)
            else other.value
        )
        return Lanes(self.builder, getattr(self.builder, operation)(self.value, right))

    return combine


class Lanes:
    """A vector of signed integers of one width; operators build one instruction for all lanes.

    Sums and products wrap around at the width. An integer operand stands for a vector of equal lanes.
    """

    def __init__(self, builder: Builder, value: Any) -> None:
        self.builder = builder
        self.value = value

    @property
    def count(self) -> int:
        """Count of lanes."""
        return int(self.value.type.count)

    @property
    def bits(self) -> int:
        """Bits of each lane."""
        return int(self.value.type.element.width)

    __add__ = _combining("add")
    __sub__ = _combining("sub")
    __mul__ = _combining("mul")
    __lshift__ = _combining("shl")
    __rshift__ = _combining("ashr")
    __or__ = _combining("or_")
    __xor__ = _combining("xor")

    def clamp(self, low: int, high: int) -> "Lanes":
        """Return the lanes clamped to low <= lane <= high."""
        value = self.value
        for comparison, limit in (("<", low), (">", high)):
            bound = ir.Constant(self.value.type, [limit] * self.count)
            is_beyond = self.builder.icmp_signed(comparison, value, bound)
            value = self.builder.select(is_beyond, bound, value)
        return Lanes(self.builder, value)

    def widen(self, bits: int, *, signed: bool = True) -> "Lanes":
        """Return these numbers in wider lanes."""
        extend = self.builder.sext if signed else self.builder.zext
        return Lanes(self.builder, extend(self.value, _vector(bits, self.count)))

    def narrow(self, bits: int) -> "Lanes":
        """Return the lowest bits of each lane."""
        return Lanes(self.builder, self.builder.trunc(self.value, _vector(bits, self.count)))

    def recast(self, bits: int) -> "Lanes":
        """Return the same bytes as lanes of another width; on little-endian processors, the lowest bits come first."""
        count = self.count * self.bits // bits
        return Lanes(self.builder, self.builder.bitcast(self.value, _vector(bits, count)))

    def pick(self, other: "Lanes", lanes: Sequence[int]) -> "Lanes":
        """Return the given lanes of this vector (0 to count - 1) and of another one (from count on)."""
        mask = ir.Constant(_vector(32, len(lanes)), list(lanes))
        return Lanes(self.builder, self.builder.shuffle_vector(self.value, other.value, mask))

    def store(self, address: Any, offset: int = 0) -> None:
        """Write the lanes to an address plus `offset` bytes; the address need not be aligned."""
        pointer = _pointer(self.builder, address, offset, self.value.type)
        self.builder.store(self.value, pointer).align = 1


def written_out(build: Callable[..., None], num_addresses: int) -> Any:
    """Return a function for compiled code, given a function that builds its LLVM code.

    Args:
        build: Writes the LLVM code; it takes LLVM's builder and `num_addresses` addresses, and returns nothing.
        num_addresses: Count of the addresses that `build` takes.

    Returns:
        A function that takes `num_addresses` addresses as integers; only kernels can call it.
    """

    def typed(_context: Any, *addresses: Any) -> Any:
        assert len(addresses) == num_addresses

        def generate(target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            build(builder, *arguments)
            return target.get_dummy_value()

        return types.void(*[types.uintp] * num_addresses), generate

    return intrinsic_of(typed, num_addresses)


def load(builder: Builder, address: Any, offset: int, bits: int, count: int) -> Lanes:
    """Return lanes read from an address plus `offset` bytes; the address need not be aligned."""
    loaded = builder.load(_pointer(builder, address, offset, _vector(bits, count)))
    loaded.align = 1
    return Lanes(builder, loaded)


def _vector(bits: int, count: int) -> Any:
    return ir.VectorType(ir.IntType(bits), count)


def _pointer(builder: Builder, address: Any, offset: int, kind: Any) -> Any:
    if offset:
        address = builder.add(address, ir.Constant(address.type, offset))
    return builder.inttoptr(address, kind.as_pointer())
