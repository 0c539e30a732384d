"""What no paper shows: coalescing TLBs, merged page tables, and kernels that keep memory together, each with each."""

from dataclasses import dataclass, field
from typing import Any

from mmulab import engine
from mmulab.reproduce.all_page_sizes import BASELINE, SPLIT, TENTH, Cell, fitted_tlb

DESIGNS = (SPLIT, "zen", "mix", "mix-merged", "mix+colt")
# The format as the machine has it, and with levels merged.
TABLES = {"radix": (), "compendia": ("table.kind=compendia",)}
# What lies together: nothing by design; 64 KiB a fault; 2 MiB set aside; 2 MiB mapped. Each a policy, and what is set.
KERNELS: dict[str, tuple[str, tuple[str, ...]]] = {
    "linux-4k": ("linux-4k", ()),
    "linux-mthp-64k": ("linux-mthp", ("policy.thp.sizes.2M=never",)),
    "freebsd-reserv": ("freebsd-reserv", ()),
    "linux-thp": ("linux-thp", ()),
}


@dataclass(frozen=True)
class Plan:
    """What is run."""

    trace: str
    machine: str = BASELINE
    designs: tuple[str, ...] = DESIGNS
    kernels: tuple[str, ...] = tuple(KERNELS)
    sets: tuple[str, ...] = ()
    options: engine.Options = field(default_factory=engine.Options)


@dataclass(frozen=True)
class Row:
    """All designs over one table under one kernel."""

    kernel: str
    table: str
    cells: list[Cell]

    def data(self) -> dict[str, Any]:
        """For a file."""
        made = {"kernel": self.kernel, "table": self.table}
        return made | {"designs": [cell.data() | accesses(cell) for cell in self.cells]}


def accesses(cell: Cell) -> dict[str, float]:
    """Walks, and the entries that one reads."""
    result = cell.result
    walks = result.walk_count
    read = result.counts["walks"]["instruction"]["accesses"] + result.counts["walks"]["data"]["accesses"]
    return {
        "walks_per_kilo_instruction": walks * 1000 / max(result.instructions, 1),
        "accesses_per_walk": read / walks if walks else 0.0,
    }


def run(plan: Plan, hear: engine.ProgressCallback | None = None) -> list[Row]:
    """Every design, over every table, under every kernel; gains are over the split design and radix table there."""
    designs = (SPLIT, *(d for d in plan.designs if d != SPLIT))
    common = (TENTH.memory, *plan.sets)
    fitted = {d: () if d == SPLIT else (fitted_tlb(plan.machine, d, engine.MIX_GROUPS, common),) for d in designs}
    places = [(kernel, table) for kernel in plan.kernels for table in TABLES]
    jobs = [
        engine.Job(plan.machine, KERNELS[kernel][0], (*common, *KERNELS[kernel][1], *TABLES[table], *fitted[design]))
        for kernel, table in places
        for design in designs
    ]
    results = engine.run(plan.trace, jobs, plan.options, hear).results
    # The split design over the radix table.
    base = {kernel: results[at * len(designs)] for at, (kernel, table) in enumerate(places) if table == "radix"}
    rows = []
    for at, (kernel, table) in enumerate(places):
        of = results[at * len(designs) : (at + 1) * len(designs)]
        rows.append(Row(kernel, table, [Cell(d, r, base[kernel]) for d, r in zip(designs, of, strict=True)]))
    return rows
