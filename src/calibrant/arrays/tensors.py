"""Tensors of other libraries (torch, JAX, CuPy, the array API) to numpy, and results in the form of the input."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.messages import InputError, Setting, first_line

HALF = ("float16", "bfloat16", "float8")
"""Beginnings of the names of types with too few digits for a probability; they are read as float32."""


def read_tensor(values: Any, name: str | Setting) -> NDArray[Any]:
    """A tensor on any device as a numpy array; half precision becomes float32.

    A tensor with gradients is refused: numpy would lose them without a word.
    """
    if getattr(values, "requires_grad", False):
        raise InputError(
            name,
            "is a tensor with gradients, which would be lost",
            f"pass {name}.detach(), or use to_torch(), whose module keeps them",
        )
    try:
        a = _in_memory(values)
    except Exception as error:  # each library raises errors of its own
        raise InputError(
            name,
            f"of type {type(values).__name__} cannot be read as an array ({first_line(error)})",
            "move it to the CPU and pass a numpy array",
        ) from error
    return a.astype(np.float32) if a.dtype.name.startswith(HALF) else a


def _in_memory(values: Any) -> NDArray[Any]:
    if hasattr(values, "detach"):  # torch, which has no numpy type for bfloat16
        on_cpu = values.detach().cpu()
        narrow = str(on_cpu.dtype).removeprefix("torch.").startswith(HALF)
        return np.asarray(on_cpu.float() if narrow else on_cpu)
    if hasattr(values, "__cuda_array_interface__") and hasattr(values, "get"):  # CuPy
        return np.asarray(values.get())
    try:
        return np.asarray(values)
    except (TypeError, RuntimeError, ValueError):  # an array API without conversion, or on another device
        return np.from_dlpack(values)


def as_given(like: Any, out: NDArray[Any]) -> Any:
    """Results in the library and on the device of a tensor."""
    if hasattr(like, "__array_namespace__"):
        library = like.__array_namespace__()
    else:
        library = sys.modules[type(like).__module__.partition(".")[0]]
    return library.asarray(np.require(out, requirements=["C", "W"]), device=like.device)
