"""Chains whose kernels get a fault: what their PTX draws is compared with the CPU."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import echobuf
from echobuf.cuda import codegen, simulated
from echobuf.testing import SimulationError, simulated_cuda
from kernels_compiled import INCLUDE, ROOT
from mutated_kernels import mutated


@functools.cache
def included(path: Path) -> set[Path]:
    """Return a source and the headers that it includes, directly or not."""
    names = re.findall(r'^#include "(echobuf/[^"]+)"', path.read_text(), re.MULTILINE)
    return {path}.union(*(included(INCLUDE / name) for name in names))


class MutatedChains:
    """Examples, and transforms by name that they are drawn with.

    Args:
        spec: of an example.
        examples: what is put, stacked.
        transforms: of a buffer each.
        factor: of each buffer.
    """

    def __init__(
        self,
        spec: Mapping[str, echobuf.Field],
        examples: Mapping[str, np.ndarray],
        transforms: Mapping[str, Mapping[str, Any]],
        *,
        factor: int,
    ) -> None:
        self._spec = spec
        self._examples = examples
        self._transforms = transforms
        self._factor = factor
        self._on_the_cpu = functools.cache(functools.partial(self._drawn, "cpu"))

    def _drawn(self, device: str, chain: str) -> list[dict[str, bytes]]:
        (window,) = {len(stacked) for stacked in self._examples.values()}
        with echobuf.EchoBuffer(
            self._spec,
            batch_size=3,
            window=window,
            factor=self._factor,
            seed=5,
            device=device,
            transform=self._transforms[chain],
        ) as buffer:
            buffer.put_batch(self._examples)
            buffer.close()
            return [
                {name: np.array(leaf).tobytes() for name, leaf in batch.items()}
                for batch in buffer
            ]

    def find_a_fault(self, chain: str) -> bool:
        """Say if the chain ends with a report, or makes other bytes."""
        try:
            with simulated_cuda(1, kernels="ptx"):
                return self._drawn("cuda", chain) != self._on_the_cpu(chain)
        except SimulationError:
            return True

    def find_a_mutant(
        self,
        chain: str,
        file: str,
        part: str,
        by: str,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> bool:
        """Say the same with kernels in one file of which a part is replaced."""
        include = mutated(folder, file, part, by) / "include"
        codegen.headers_digest()  # it is kept: of the headers without a mutant
        if ROOT / "cpp" / file not in included(ROOT / "cpp" / "kernels" / "draw.cu"):
            # These kernels are as they were: they need not be compiled again.
            options = codegen.draw_options()
            monkeypatch.setattr(simulated, "draw_options", lambda: options)
        monkeypatch.setattr(codegen, "INCLUDE", include)
        return self.find_a_fault(chain)
