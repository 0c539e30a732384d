"""Designs for all page sizes in equal area, for each way to have pages, and beside programs that break memory up."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from rich.console import Console

from mmulab import contiguity, engine
from mmulab.reproduce.shared.cells import energy_nj
from mmulab.result import Result
from mmulab.tables import plain
from mmulab.units import show_percent, toml_value

BASELINE = "haswell-mix-baseline"
SPLIT = "split"
DESIGNS = (SPLIT, "mix", "mix-merged", "mix+colt", "colt", "colt++", "hash-rehash", "skew", "ideal")
MEMHOG = (0, 20, 40, 60, 80)
VMS = (1, 4)
VM_MEMHOG = (20, 40)
MIRRORS = ("blind", "merged")
SETS = (16, 32, 64, 128, 256, 512)


@dataclass(frozen=True)
class Scale:
    """How much memory there is, as what is set."""

    memory: str
    guest: str
    pool: str


# Section 6.1: 80 GB; section 7.1: virtual machines of 10 GB. A pool of superpages leaves some of it for tables.
PAPER = Scale("memory.size=80G", "virtual.memory.size=10G", "policy.hugetlb.pool=70G")
# A tenth, for traces of a tenth; guests have a quarter of it, for programs that shrink less than memory does.
TENTH = Scale("memory.size=8G", "virtual.memory.size=2G", "policy.hugetlb.pool=6G")


@dataclass(frozen=True)
class Regime:
    """A way to have pages: a policy, and what else is set."""

    name: str
    policy: str
    sets: tuple[str, ...] = ()
    # Virtual machines that each run the program; 0 for none.
    vms: int = 0
    # No small pages, but where memory is no multiple of the large ones.
    superpages_only: bool = False

    def job(self, machine: str, sets: tuple[str, ...]) -> engine.Job:
        """This machine with pages of this kind."""
        host = self.policy if self.vms else None
        return engine.Job(machine, self.policy, (*sets, *self.sets), host)


def _virtual(vms: int, percent: int, scale: Scale) -> Regime:
    hog = tuple(f"virtual.{key}" for key in contiguity.memhog(percent))
    return Regime(f"{vms} VM{'s' * (vms > 1)}, memhog {percent} %", "linux-thp", (scale.guest, *hog), vms)


def regimes(memhog: tuple[int, ...], vms: tuple[int, ...] = (), scale: Scale = TENTH) -> list[Regime]:
    """One page size only (Figure 14), then whatever Linux finds beside memhog (Figure 15), and in virtual machines."""
    pool = (scale.pool,)
    fixed = [
        Regime("4 KB", "linux-4k"),
        Regime("2 MB", "hugetlb-2m", pool, superpages_only=True),
        Regime("1 GB", "hugetlb-1g", pool, superpages_only=True),
    ]
    hogs = [Regime(f"THP, memhog {p} %", "linux-thp", contiguity.memhog(p)) for p in memhog]
    return fixed + hogs + [_virtual(n, p, scale) for n in vms for p in VM_MEMHOG]


@dataclass(frozen=True)
class Plan:
    """What is run."""

    trace: str
    machine: str = BASELINE
    designs: tuple[str, ...] = DESIGNS
    memhog: tuple[int, ...] = MEMHOG
    vms: tuple[int, ...] = VMS
    groups: tuple[int, int] = engine.MIX_GROUPS
    sets: tuple[str, ...] = ()
    options: engine.Options = field(default_factory=engine.Options)


def tlb_set(rows: list[dict[str, Any]]) -> str:
    """Whole TLBs, as what is set."""
    return f"tlb={toml_value(rows)}"


def fitted_tlb(machine: str, design: str, groups: tuple[int, int], sets: tuple[str, ...]) -> str:
    """A design in the area of a machine's TLBs, as what is set."""
    return tlb_set(engine.fit(machine, design, groups, sets)["fitted"]["tlb"])


def at_once(machine: str, sets: tuple[str, ...]) -> tuple[str, ...]:
    """What is set for arrays that a machine searches size by size to be searched for all sizes at once.

    A coalescing array is, for its groups are a size more. Beside it a split one would lose by its probes alone.
    """
    arrays = engine.resolve(engine.Job(machine, "linux-4k", sets))["machine"]["tlb"]
    in_turn = (array for array in arrays if array["probe"] == "serial" and not array.get("predictor"))
    return tuple(f"tlb.{array['name']}.probe=parallel" for array in in_turn)


@dataclass(frozen=True)
class Cell:
    """A design under a regime, beside the split design there."""

    design: str
    result: Result
    split: Result

    @property
    def cycles(self) -> int:
        """User time: what kernels and hosts do is the page policy's."""
        return _user(self.result)

    @property
    def gain(self) -> float:
        """How much faster than the split design."""
        return _user(self.split) / self.cycles - 1 if self.cycles else 0.0

    @property
    def overhead(self) -> float | None:
        """How much slower than TLBs that never miss; none for a trace without instructions."""
        base = int(self.result.data["model"]["cycles"]["base"])
        return self.cycles / base - 1 if base else None

    @property
    def energy_saved(self) -> float:
        """Of the split design's translation energy, what is saved."""
        before = _energy(self.split)
        return 1 - _energy(self.result) / before if before else 0.0

    def data(self) -> dict[str, Any]:
        """For a file."""
        energy = self.result.data["energy"]
        return {
            "design": self.design,
            "gain": self.gain,
            "overhead_over_ideal": self.overhead,
            "energy_saved": self.energy_saved,
            "walks": self.result.walk_count,
            "walk_cycles": self.result.data["model"]["cycles"]["walk"],
            "dynamic_nj": energy["dynamic_nj"],
            "leakage_nj": energy["leakage_nj"],
        }


@dataclass(frozen=True)
class Row:
    """All designs under a regime."""

    name: str
    cells: list[Cell]

    def data(self) -> dict[str, Any]:
        """For a file."""
        split = self.cells[0].split
        return {
            "regime": self.name,
            "contiguity": [vars(row) for row in contiguity.rows(split)],
            "designs": [cell.data() for cell in self.cells],
        }


def _user(result: Result) -> int:
    cycles = result.data["model"]["cycles"]
    return int(cycles["total"] - cycles["kernel"] - cycles.get("host", 0))


def _energy(result: Result) -> float:
    return energy_nj(result.data["energy"], result.data["model"]["cycles"])


def run(plan: Plan, on_progress: engine.ProgressCallback | None = None) -> list[Row]:
    """Runs every design under every regime; those with equally many virtual machines over one decoding of the trace."""
    designs = (SPLIT, *(d for d in plan.designs if d != SPLIT))
    common = (TENTH.memory, *plan.sets)
    fitted = {
        design: () if design == SPLIT else (fitted_tlb(plan.machine, design, plan.groups, common),)
        for design in designs
    }
    rows = []
    for vms, some in groupby(regimes(plan.memhog, plan.vms), lambda regime: regime.vms):
        wanted = list(some)
        jobs = [regime.job(plan.machine, (*common, *fitted[design])) for regime in wanted for design in designs]
        options = replace(plan.options, vms=(plan.trace,) * max(vms - 1, 0))
        results = engine.run(plan.trace, jobs, options, on_progress).results
        for at, regime in enumerate(wanted):
            of = results[at * len(designs) : (at + 1) * len(designs)]
            rows.append(Row(regime.name, [Cell(d, r, of[0]) for d, r in zip(designs, of, strict=True)]))
    return rows


def with_sets(fitted: list[dict[str, Any]], sets: int, mirrors: str) -> list[dict[str, Any]]:
    """The arrays, with this number of sets in the second level: with as many entries as it has, or one way."""

    def again(array: dict[str, Any]) -> dict[str, Any]:
        ways = max(1, array["entries"] // sets)
        mix = (array["mix"] or {}) | {"mirrors": mirrors}
        return array | {"entries": sets * ways, "ways": ways, "mix": mix}

    return [again(array) if array["level"] == 2 else array for array in fitted]


def run_sets(plan: Plan, on_progress: engine.ProgressCallback | None = None) -> list[Row]:
    """MIX with more and more sets of the second level, at one number of entries, under THP."""
    common = (TENTH.memory, *plan.sets)
    fitted = engine.fit(plan.machine, "mix", plan.groups, common)["fitted"]["tlb"]
    jobs, names = [engine.Job(plan.machine, "linux-thp", common)], []
    for sets in SETS:
        for mirrors in MIRRORS:
            rows = with_sets(fitted, sets, mirrors)
            jobs.append(engine.Job(plan.machine, "linux-thp", (*common, tlb_set(rows))))
            names.append((sets, mirrors))
    results = engine.run(plan.trace, jobs, plan.options, on_progress).results
    split = results[0]
    made: dict[int, list[Cell]] = {}
    for (sets, mirrors), result in zip(names, results[1:], strict=True):
        made.setdefault(sets, []).append(Cell(mirrors, result, split))
    return [Row(f"{sets} sets", cells) for sets, cells in made.items()]


def show(out: Console, rows: Sequence[Row]) -> None:
    """Prints designs side by side."""
    for title, of in (
        ("Faster than the split TLBs", lambda c: show_percent(c.gain, signed=True)),
        ("Slower than TLBs that never miss", lambda c: "-" if c.overhead is None else show_percent(c.overhead)),
        ("Translation energy saved", lambda c: show_percent(c.energy_saved, signed=True)),
    ):
        table = plain()
        table.add_column(title)
        for cell in rows[0].cells:
            table.add_column(cell.design, justify="right")
        for row in rows:
            table.add_row(row.name, *map(of, row.cells))
        out.print(table)
        out.print()
