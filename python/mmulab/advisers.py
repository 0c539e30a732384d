"""Advisers that are ready to use: page sizes by region, and promotion of ranges of which enough is in use.

::

    from mmulab import advisers, api

    trace = api.open("gen:gups?footprint=64M")
    trace.run("zen3-5900x", ["linux-4k"], adviser=advisers.ByRegion({"[heap]": "2M"}))

`mmulab.advised` has what an adviser of your own needs.
"""

from collections.abc import Iterator, Mapping

from mmulab import UserError
from mmulab.advised import BASE, Fault, Promotion, View, size_bytes


class ByRegion:
    """Maps each region with the size that a table gives it, or the largest below it that fits at the fault's address.

    The keys are names of regions, as reports have them (`[heap]`, `anon`), and ranges of addresses: (first, end). The
    first key that fits decides. The policy decides about all other memory.
    """

    def __init__(self, sizes: Mapping[str | tuple[int, int], str]) -> None:
        """Raises UserError for a value that is not a size, or a range that is empty."""
        self._sizes = {key: size_bytes(size) for key, size in sizes.items()}
        for key in self._sizes:
            if not isinstance(key, str) and key[0] >= key[1]:
                raise UserError(f"the range {key[0]:#x}-{key[1]:#x} is empty\nhint: give (first address, end)")

    def fault(self, fault: Fault) -> str | None:
        """The size for the fault's region."""
        for key, wanted in self._sizes.items():
            is_here = fault.mapping.name == key if isinstance(key, str) else key[0] <= fault.address < key[1]
            if is_here:
                return next(size for size in reversed(fault.sizes) if size_bytes(size) <= wanted)
        return None


class Threshold:
    """Promotes each aligned range of `size` of which at least `pages` base pages are mapped.

    This is khugepaged's rule with `max_ptes_none` of 512 - `pages`, without a limit of pages per scan.
    """

    def __init__(self, pages: int, size: str = "2M", period_ms: int | None = None) -> None:
        """`period_ms`: simulated milliseconds between two ticks; None: those between two scans of khugepaged."""
        self._bytes, self._size, self.period_ms = pages * BASE, size, period_ms
        if not 0 < self._bytes <= size_bytes(size):
            most = size_bytes(size) // BASE
            raise UserError(f"{pages} pages: a range of {size} has {most}\nhint: give from 1 to {most}")

    def tick(self, view: View) -> Iterator[Promotion]:
        """The ranges that have enough."""
        whole = size_bytes(self._size)
        for process in view.processes:
            for start, mapped in process.mapped(self._size).items():
                if mapped >= self._bytes and process.holds(start, start + whole):
                    yield Promotion(process.pid, start, start + whole, self._size)
