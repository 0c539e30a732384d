"""What a study found, in the form reports are made of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mmulab.result import Result
from mmulab.study import code, places
from mmulab.study.code import Code
from mmulab.study.here import Here
from mmulab.study.instructions import Instructions
from mmulab.study.naming import NAMELESS, asking_for_names
from mmulab.study.plan import BASELINE
from mmulab.study.strip import Strip, data_strip, strip
from mmulab.units import show_bytes, show_percent


@dataclass(frozen=True)
class Gain:
    """What a policy gains over the baseline on the same machine."""

    user: float
    whole: float
    memory: int

    @classmethod
    def of(cls, result: Result, base: Result) -> "Gain":
        """Shares of the baseline's time saved, without and with kernel work, and more bytes resident at the peak."""
        return cls(
            1 - result.user_cycles / base.user_cycles if base.user_cycles else 0.0,
            1 - result.total_cycles / base.total_cycles if base.total_cycles else 0.0,
            result.resident_peak - base.resident_peak,
        )


class Outcome:
    """All results of a study."""

    def __init__(self, results: Sequence[Result]) -> None:
        """Checks every identity first: a study with a sum that does not come out is not reported."""
        for result in results:
            result.check()
        self.results = list(results)
        # What is forecast for this computer, if it was probed.
        self.here: Here | None = None
        # Which pages of code ran in which part of the run, if that was kept.
        self.code_windows: dict[str, Any] | None = None
        # The trace as it was named: beside it are names of code that the program made while it ran.
        self.recording = ""
        # The program linked at 2 MB, with its code on 2 MB pages, by machine: where that may save more.
        self.relinked: dict[str, list[Result]] = {}

    @property
    def trace(self) -> dict[str, Any]:
        """What was run."""
        return self.results[0].trace

    @property
    def program(self) -> str:
        """The program with its arguments, or the trace's name."""
        words = [str(self.trace.get("program") or ""), *map(str, self.trace.get("args") or [])]
        return " ".join(words).strip() or str(self.trace.get("name", ""))

    @cached_property
    def machines(self) -> dict[str, list[Result]]:
        """Results by machine, in the order they were run."""
        found: dict[str, list[Result]] = {}
        for result in self.results:
            found.setdefault(result.machine, []).append(result)
        return found

    @cached_property
    def policies(self) -> list[str]:
        """The policies, in the order they were run."""
        return list(dict.fromkeys(r.policy for r in self.results))

    @property
    def partial(self) -> list[Result]:
        """Runs that did not come to their end."""
        return [r for r in self.results if not r.complete]

    def alike(self, figures: Callable[[Result], object]) -> list[tuple[list[str], list[Result]]]:
        """The machines whose figures are equal under every policy, and the results of the first of them."""
        groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
        for machine in self.machines:
            key = tuple((r.policy, repr(figures(r))) for r in self.with_relinked(machine))
            groups.setdefault(key, []).append(machine)
        return [(machines, self.with_relinked(machines[0])) for machines in groups.values()]

    def base(self, machine: str) -> Result:
        """The baseline's result on a machine."""
        return next(r for r in self.machines[machine] if r.policy == BASELINE)

    def gain(self, result: Result) -> Gain:
        """Over the baseline on the same machine."""
        return Gain.of(result, self.base(result.machine))

    @cached_property
    def regions(self) -> dict[str, list[places.Region]]:
        """Regions by machine, highest cost first."""
        return {machine: places.regions(results, BASELINE) for machine, results in self.machines.items()}

    @cached_property
    def code(self) -> dict[str, Code]:
        """Code by machine."""
        return {machine: code.of(regions, BASELINE) for machine, regions in self.regions.items()}

    @property
    def to_relink(self) -> list[str]:
        """The machines on which code costs, and can be moved in part only; or has pages of files, which need it."""
        if code.REMAP not in self.policies:
            return []
        files = any(policy in self.policies for policy in code.WHOLE)
        return [m for m, found in self.code.items() if found.needs_linking or (files and found.share >= code.LINKS)]

    def relink(self, results: Sequence[Result]) -> None:
        """Takes the results of the program linked at 2 MB."""
        for result in results:
            result.check()
            self.relinked.setdefault(result.machine, []).append(result)

    def with_relinked(self, machine: str) -> list[Result]:
        """A machine's results, and those of the linked program behind them."""
        return [*self.machines[machine], *self.relinked.get(machine, [])]

    def of_relinked(self, policy: str) -> dict[str, Result]:
        """The results of the linked program under a policy, by machine."""
        return {machine: r for machine, results in self.relinked.items() for r in results if r.policy == policy}

    def row_name(self, result: Result) -> str:
        """What a row of a table is called: the policy, and whether the program is the linked one."""
        linked = result.policy != code.RELINKED and any(r is result for r in self.relinked.get(result.machine, []))
        return f"{result.policy}, linked at 2M" if linked else result.policy

    @cached_property
    def programs(self) -> dict[str, list[places.Program]]:
        """Programs by machine, highest cost first, under the baseline."""
        return {machine: places.programs(self.base(machine)) for machine in self.machines}

    @cached_property
    def functions(self) -> dict[str, list[places.Function]]:
        """Functions by machine, highest cost first, under the baseline."""
        return {machine: places.functions(self.base(machine), self.recording) for machine in self.machines}

    @cached_property
    def without_functions(self) -> list[tuple[str, str]]:
        """Files among the code whose functions are not known, and why."""
        return places.without_functions(self.results[0])

    @cached_property
    def nameless_code(self) -> str:
        """How to have names of code that a run-time compiler made; empty where none is without."""
        functions = (f for found in self.functions.values() for f in found)
        if not any(f.name.endswith(NAMELESS) for f in functions):
            return ""
        return asking_for_names(p.path or p.name for found in self.programs.values() for p in found)

    @cached_property
    def instructions(self) -> dict[str, Instructions]:
        """Where instruction misses come from, by machine, under the baseline."""
        return {machine: Instructions(self.base(machine), self.recording) for machine in self.machines}

    @cached_property
    def strip(self) -> Strip | None:
        """The pages of code that ran, by part of the run."""
        return strip(self.code_windows, self.results[0]) if self.code_windows else None

    @cached_property
    def data_strip(self) -> Strip | None:
        """The memory that data accesses used, by part of the run."""
        return data_strip(self.code_windows, self.results[0]) if self.code_windows else None

    @cached_property
    def blocks(self) -> dict[str, list[places.Block]]:
        """Blocks of 2 MB by machine, highest cost first, under the baseline."""
        return {machine: places.blocks(self.base(machine)) for machine in self.machines}

    @property
    def exactness(self) -> dict[str, list[str]]:
        """What is counted and what is modelled."""
        found: dict[str, list[str]] = self.results[0].data.get("exactness") or {"counted": [], "modelled": []}
        return found

    @cached_property
    def assumptions(self) -> list[tuple[str, str, str, str, str]]:
        """Of which machines and policies, where, key, value, reason: each said once."""
        found: dict[tuple[str, str, str, str], list[str]] = {}
        for result in self.results:
            for a in result.data.get("assumptions", []):
                place = str(a["where"])
                owner = result.policy if place.startswith("policy") else result.machine
                owners = found.setdefault((place, str(a["key"]), str(a.get("value", "")), str(a["reason"])), [])
                if owner not in owners:
                    owners.append(owner)
        return [(", ".join(owners), *key) for key, owners in found.items()]

    @property
    def warnings(self) -> list[str]:
        """What the trace and the runs warn of, each once."""
        return list(dict.fromkeys(warning for result in self.results for warning in result.warnings))

    def by_machine(self) -> list[str]:
        """One sentence for each machine, in the order the machines were run."""
        lines = []
        for machine, results in self.machines.items():
            base = self.base(machine)
            cost_of = {r.policy: r.user_cycles for r in results}
            order = [BASELINE, *(p for p in cost_of if p != BASELINE)]
            chosen = places.as_good(cost_of, order, places.WORTH * base.user_cycles)
            best = next(r for r in results if r.policy == chosen)
            if best is base and base.is_quick:
                # The model may hide what there is: the policy counts that would save most if nothing overlapped.
                best = min(results, key=lambda r: r.serial_cycles)
                if base.serial_cycles - best.serial_cycles <= places.WORTH * base.serial_cycles:
                    best = base
            gain = self.gain(best)
            share = show_percent(base.translation_share)
            if base.is_quick:
                share = f"{share} ({show_percent(base.model['share_of_time_serial'])} if nothing overlapped)"
            cost = f"{base.machine_title}: translation takes {share} of user time with 4 KB pages; "
            if self.code[machine].is_what_costs:
                found = self.code[machine]
                cost += f"{show_percent(found.share)} of that is code ({found.named}); "
            if best is base:
                worth = show_percent(places.WORTH, digits=2)
                lines.append(f"{cost}in this model, no policy saves more than {worth} of user time.")
                continue
            lines.append(f"{cost}{best.policy} saves {self._saved(best, base)} for {_memory(gain.memory)}.")
        return lines

    def _saved(self, result: Result, base: Result) -> str:
        """The share of user time that it saves: from what the quick model leaves of stalls to all of them."""
        saved = self.gain(result).user
        if not base.is_quick:
            return show_percent(saved)
        serial = 1 - result.serial_cycles / base.serial_cycles if base.serial_cycles else 0.0
        low, high = sorted((max(0.0, saved), serial))
        return f"{show_percent(low)} to {show_percent(high)}"

    @property
    def is_quick(self) -> bool:
        """Whether a base CPI and stalls stand for time on one of the machines at least."""
        return any(result.is_quick for result in self.results)


def _memory(extra: int) -> str:
    if not extra:
        return "no more resident memory"
    return f"{show_bytes(abs(extra))} {'more' if extra > 0 else 'less'} resident memory"
