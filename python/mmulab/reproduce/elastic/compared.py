"""A program's runs beside those under 4K pages: what the tables of Elastic Translations say of time and TLB misses."""

from dataclasses import dataclass

from mmulab.reproduce.shared.cells import Figures, user


@dataclass(frozen=True)
class Compared:
    """A run for each bound of dependence, and the same program's under 4K pages."""

    of: tuple[Figures, ...]
    base: tuple[Figures, ...]

    @property
    def speedups(self) -> tuple[float, ...]:
        """Time under 4K over time here, less 1, for each bound."""
        return tuple(user(base) / user(here) - 1 for base, here in zip(self.base, self.of, strict=True))

    @property
    def misses(self) -> float:
        """Misses of the second level of the TLB, for data, as a share of those under 4K."""
        return float(self.of[0].data_tlb["l2d"]["misses"] / max(1, self.base[0].data_tlb["l2d"]["misses"]))
