"""What a study runs."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mmulab import UserError, aged, engine
from mmulab.study import code, defaults

# Gains are told over the first.
BASELINE = "linux-4k"
DEFAULT_POLICIES = (BASELINE, "linux-thp", "hugetlb-2m", "linux-code-remap")


@dataclass(frozen=True)
class Plan:
    """Every machine under every policy, over one trace."""

    trace: str
    machines: tuple[str, ...]
    policies: tuple[str, ...] = DEFAULT_POLICIES
    sets: tuple[str, ...] = ()
    options: engine.Options = field(
        default_factory=lambda: engine.Options(touched=True, profile=True, code_windows=True)
    )

    @classmethod
    def make(
        cls,
        trace: str,
        machines: tuple[str, ...] | None,
        policies: tuple[str, ...] | None,
        sets: tuple[str, ...],
        options: engine.Options,
        isa: str | None = None,
        files: bool = False,
    ) -> "Plan":
        """A plan out of what the user gave: `all` means all there are. Of machines, all with base pages of 4 KB. Of
        policies, that and the default mean those that each machine can run. The baseline is always among the policies.
        `isa`: the program's instruction set, for the machines if none are named. `files`: also the policies for code
        that are on request."""
        chosen = _all(machines, engine.machines, defaults.machines(isa))
        if machines == ("all",):
            # Only programs recorded for larger base pages run there, and few policies.
            chosen = tuple(name for name in chosen if not has_larger_base_pages(name))
        under = _all(policies, engine.policies, DEFAULT_POLICIES)
        if policies in (None, ("all",)):
            under = tuple(policy for policy in under if all(_can_run(machine, policy) for machine in chosen))
        if files:
            more = [policy for policy in (code.REMAP, *code.on_request(isa)) if policy not in under]
            under += tuple(policy for policy in more if all(_can_run(machine, policy) for machine in chosen))
        for what, names in (("machine", chosen), ("policy", under)):
            twice = sorted({n for n in names if names.count(n) > 1})
            if twice:
                raise UserError(f"{what} named twice: {', '.join(twice)}\nhint: name each once")
        if BASELINE not in under:
            under = (BASELINE, *under)
        return cls(trace, chosen, under, sets, options)

    def relinked(self, machines: Sequence[str]) -> "Plan | None":
        """The same programs linked at 2 MB, on some of the machines; None if they are changed already. Pages of files
        need that mapping and file agree modulo 2 MB, as such programs do: they are among the policies if they were."""
        if (self.options.reshape or {}).get("image"):
            return None
        options = replace(self.options, reshape={**(self.options.reshape or {}), **code.LINKED})
        policies = (code.RELINKED, *(policy for policy in code.WHOLE if policy in self.policies))
        return replace(self, machines=tuple(machines), policies=policies, options=options)

    @property
    def jobs(self) -> list[engine.Job]:
        """Machine by machine, policies within."""
        return [engine.Job(m, p, aged.unless_said(self.sets)) for m in self.machines for p in self.policies]

    def resolved(self) -> dict[str, Any]:
        """What is to be run with every value known: enough to repeat it."""
        jobs = [engine.resolve(job) for job in self.jobs]
        for what, given in (("machine", self.machines), ("policy", self.policies)):
            _refuse_equal_names(what, len(given), {str(job[what]["name"]) for job in jobs})
        return {
            "version": engine.version(),
            "trace": self.trace,
            "machines": list(self.machines),
            "policies": list(self.policies),
            "set": list(self.sets),
            # The number of threads changes no result.
            "options": {key: value for key, value in self.options.spec().items() if key != "threads"},
            "reshape": self.options.reshape or {},
            "jobs": jobs,
        }


def _refuse_equal_names(what: str, given: int, names: set[str]) -> None:
    """Refuses two descriptions of one name, of which a report could not distinguish the results."""
    if len(names) < given:
        raise UserError(
            f"two {what} files say the same name: {', '.join(sorted(names))} are all there are\n"
            f"hint: give each {what} file a `name` of its own"
        )


# Of a policy that the machine's page table is not for, its refusal says one of these.
_UNFIT = (
    "contiguous.bit",
    "works with base pages of 4K only",
    "is not larger than the machine's base page",
    "page table has no huge page of",
)
# Page tables whose base pages are larger than 4 KB.
_LARGER_BASE_PAGES = ("armv8-16k", "armv8-64k")


def has_larger_base_pages(machine: str) -> bool:
    """Whether the machine's kernel has base pages larger than 4 KB."""
    table = engine.resolve(engine.Job(machine, BASELINE))["machine"]["table"]
    return table["kind"] in _LARGER_BASE_PAGES


def _can_run(machine: str, policy: str) -> bool:
    """Whether the policy is for the machine's page table: for its entries, its base pages and its huge pages."""
    try:
        engine.resolve(engine.Job(machine, policy))
    except UserError as error:
        if not any(reason in str(error) for reason in _UNFIT):
            raise
        return False
    return True


def _all(given: tuple[str, ...] | None, known: Any, default: tuple[str, ...]) -> tuple[str, ...]:
    if given is None:
        return default
    return tuple(str(entry["name"]) for entry in known()) if given == ("all",) else given
