"""What a study says first: what to map how, what that saves and takes, where the cost lies, and lines to paste.

results --> memory: the policy that most machines choose --.
        --> code: its policy, where code costs ------------+--> steps, the largest saving first
this computer: tried, else forecast -----------------------'

Nearer evidence decides: a stopwatch before a forecast, a forecast before the models of other machines.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mmulab.result import Result
from mmulab.study import code, lines
from mmulab.study.here import POLICIES
from mmulab.study.outcome import Outcome
from mmulab.study.places import Function, Region
from mmulab.study.plan import BASELINE
from mmulab.units import shorten, show_bytes, show_percent

# A smaller saving is not worth advice, because the assumptions move it by more. A range counts by its middle.
WORTH = 0.01
# A smaller share rounds to 0.0 %.
LEAST = 0.0005
# Regions and functions that a sentence names, and how long a function's name may be there.
NAMED = 2
NAME_WIDTH = 40
# Transparent huge pages for data.
_THP = "linux-thp"


@dataclass(frozen=True)
class Step:
    """One thing to do."""

    # What, as a sentence.
    do: str
    # The share of user time that it saves, at least and at most: by which steps are sorted.
    saves: tuple[float, float]
    # What it saves, what memory it takes, where the cost lies: a label and its text each.
    rows: tuple[tuple[str, str], ...]
    # Lines to paste, each behind what it is for; a line without a label goes with the one above.
    how: tuple[tuple[str, str], ...]

    @property
    def grouped(self) -> list[tuple[str, list[str]]]:
        """The rows by label: a row without one goes with the row above."""
        found: list[tuple[str, list[str]]] = []
        for label, text in self.rows:
            if label or not found:
                found.append((label, []))
            found[-1][1].append(text)
        return found

    @property
    def sources(self) -> list[str]:
        """Where the lines to paste are documented."""
        return lines.sources(self.how)


@dataclass(frozen=True)
class Verdict:
    """What to do; or why nothing."""

    steps: tuple[Step, ...]
    # Without a step: the sentence that says so.
    nothing: str
    # Whether even the upper end is too little. Only then are the tables noise.
    is_over: bool = False


def of(outcome: Outcome) -> Verdict:
    """The verdict of a study."""
    candidates = [_memory(outcome), _code(outcome)]
    steps = sorted((step for step in candidates if step is not None), key=lambda step: step.saves, reverse=True)
    if steps:
        return Verdict(tuple(steps), "")
    return Verdict((), *_nothing(outcome))


# By machine: the share of user time that is saved, at least and at most.
Saved = dict[str, tuple[float, float]]


def _memory(outcome: Outcome) -> Step | None:
    """Other pages for data: what is forecast for this computer, else what most machines choose."""
    here = outcome.here
    if here is not None:
        # The forecast for this computer rests on more measurements than the models of other machines.
        if here.saves is False:
            return None
        policy = POLICIES[1]
        saved = {m: saved_on(outcome, m, policy) for m in outcome.machines if policy in outcome.policies}
        said = [f"{here.tried_said()} on this computer"] if here.tried_bounds else []
        said.append(here.said() if said else f"{here.said()} on this computer")
        rows = [("saves", said[0]), *(("", text) for text in (*said[1:], *here.notes()))]
        rows += [("models", _range(outcome, saved))] if saved else []
        bounds = here.bounds
        small, large = (here.resident[p] for p in POLICIES)
    else:
        found = _chosen(outcome, [p for p in outcome.policies if p not in (BASELINE, code.REMAP, *code.ON_REQUEST)])
        if found is None:
            return None
        policy, saved = found
        rows = [("saves", _range(outcome, saved))]
        bounds, (small, large) = _bounds(saved), _resident(outcome, policy)
    first = next(iter(outcome.machines))
    regions = [r for r in outcome.regions[first] if not r.is_code]
    mapped = [r for r in regions if _gains(r, policy)] or regions
    rows += [("memory", _extra(small, large)), ("where", _where(outcome, first, mapped))]
    if asks := lines.naming(outcome.trace, mapped[:NAMED], outcome.results[0]):
        rows.append(("names", asks))
    rows += [("kernel", lines.switch())] if policy == "linux-thp" else []
    names = " and ".join(map(_named, mapped[:NAMED])) or "this program's memory"
    do = f"Map {names} with {_pages(policy)}."
    if here is not None and here.saves is None:
        do = f"Try {_pages(policy)} for {names}: whether they save time is not certain."
        if here.tried_bounds:
            do = f"Whether {_pages(policy)} for {names} save time is not certain: the trial does not decide it."
    functions = {f.name for found in outcome.functions.values() for f in found}
    how = lines.memory(policy, outcome.trace, mapped, outcome.results[0], functions)
    return Step(do, bounds, tuple(rows), tuple(how))


def _code(outcome: Outcome) -> Step | None:
    """Larger pages for code, where they save."""
    if code.REMAP not in outcome.policies:
        return None
    saved = _saved_of(outcome, code.REMAP)
    linked = _saved_linked(outcome, code.RELINKED)
    moves = any(map(_is_worth, saved.values()))
    bounds = max(_bounds(found) for found in (saved, linked) if found)
    if not any(map(_is_worth, [*saved.values(), *linked.values()])):
        return _folios(outcome)
    files, where = _where_code(outcome)
    rows = [("saves", _range(outcome, saved))] if moves else []
    if linked:
        rows.append(("saves" if not rows else "linked", f"{_range(outcome, linked)}, if it is linked at 2 MB"))
    rows += [("memory", _extra(*_resident(outcome, code.REMAP))), ("where", where)]
    do = f"{'Move' if moves else 'Link anew, and move,'} the code of {files} onto 2 MB pages ({code.REMAP})."
    rows.append(("kernel", lines.about_code(any(c.needs_linking for c in outcome.code.values()))))
    others = [policy for policy in code.ON_REQUEST if policy in outcome.policies]
    rows += [row for policy in others for row in _other_way(outcome, policy)]
    if not others:
        names = ", ".join(code.on_request(outcome.trace.get("isa")))
        rows.append(("not run", f"other ways to larger pages for code: {names}. --code runs them"))
    return Step(do, bounds, tuple(rows), tuple(lines.code(outcome.trace, others)))


def _where_code(outcome: Outcome) -> tuple[str, str]:
    """The files of code that cost most on the first machine, and their share of the cost."""
    found = outcome.code[next(iter(outcome.machines))]
    files = " and ".join(name for name, _ in found.files[:NAMED])
    return files, f"{show_percent(found.share)} of stalls for translations are for code: {found.named}"


def _folios(outcome: Outcome) -> Step | None:
    """Blocks of 64 KB for code that holds no whole 2 MB, where they save."""
    if code.FOLIOS not in outcome.policies:
        return None
    saved = _saved_of(outcome, code.FOLIOS)
    if not any(map(_is_worth, saved.values())):
        return None
    files, where = _where_code(outcome)
    rows = [
        ("saves", _range(outcome, saved)),
        ("memory", _extra(*_resident(outcome, code.FOLIOS))),
        ("where", where),
        ("kernel", lines.about_folios()),
    ]
    do = f"Run {files} on a kernel that reads code in blocks of 64 KB ({code.FOLIOS})."
    return Step(do, _bounds(saved), tuple(rows), ())


def _saved_of(outcome: Outcome, policy: str, beside: str = BASELINE) -> Saved:
    """What a policy saves beside another one, on each machine."""
    return {m: _saved_by(_result(outcome, m, beside), _result(outcome, m, policy)) for m in outcome.machines}


def _saved_linked(outcome: Outcome, policy: str, beside: str = BASELINE) -> Saved:
    linked = outcome.of_relinked(policy).items()
    return {m: _saved_by(_result(outcome, m, beside), result) for m, result in linked}


def _result(outcome: Outcome, machine: str, policy: str) -> Result:
    return next(r for r in outcome.machines[machine] if r.policy == policy)


def _other_way(outcome: Outcome, policy: str) -> list[tuple[str, str]]:
    """What larger pages save that code gets in another way, how much of the code has them, and what they need."""
    # khugepaged's policy has 2 MB pages for data, too; what these save is not code's.
    beside = _THP if policy == code.KHUGEPAGED and _THP in outcome.policies else BASELINE
    saved = _saved_of(outcome, policy, beside)
    size = code.page_bytes(policy)
    share = code.on_larger_pages(_result(outcome, next(iter(outcome.machines)), policy), size)
    said = [_range(outcome, saved), f"{show_percent(share)} of mapped code is on pages of {show_bytes(size)}"]
    if linked := outcome.of_relinked(policy):
        share = code.on_larger_pages(next(iter(linked.values())), size)
        span = _range(outcome, _saved_linked(outcome, policy, beside))
        said.append(f"if it is linked at 2 MB, {span}, and {show_percent(share)} of code on pages of 2 MB")
    if beside != BASELINE:
        said[0] += f", beyond {beside}"
    label, needs = {
        code.KHUGEPAGED: ("khugepaged", lines.about_khugepaged),
        code.TMPFS: ("tmpfs", lines.about_tmpfs),
        code.POOL: ("hugetlb", lines.about_pool),
        code.FOLIOS: ("folios", lines.about_folios),
    }[policy]
    return [(label, f"saves {'; '.join(said)} ({policy})."), ("", needs())]


def _chosen(outcome: Outcome, policies: Sequence[str]) -> tuple[str, Saved] | None:
    """The policy that most machines choose, and what it saves on each; None where no machine gains enough."""
    chosen: Counter[str] = Counter()
    for machine in outcome.machines:
        saved = {p: saved_on(outcome, machine, p) for p in policies}
        enough = [p for p in policies if _is_worth(saved[p])]
        if enough:
            # Of those that save about as much the first, for it asks for least.
            best = max(sum(saved[p]) for p in enough)
            chosen[next(p for p in enough if sum(saved[p]) >= best - WORTH)] += 1
    if not chosen:
        return None
    policy = chosen.most_common(1)[0][0]
    return policy, _saved_of(outcome, policy)


def saved_on(outcome: Outcome, machine: str, policy: str) -> tuple[float, float]:
    """The share of user time that a policy saves on a machine, at least and at most."""
    return _saved_by(outcome.base(machine), _result(outcome, machine, policy))


def _saved_by(base: Result, result: Result) -> tuple[float, float]:
    """The share of user time that a policy saves: from what the model leaves of stalls to all of them."""
    saved = 1 - result.user_cycles / base.user_cycles if base.user_cycles else 0.0
    if not base.is_quick:
        return saved, saved
    serial = 1 - result.serial_cycles / base.serial_cycles if base.serial_cycles else 0.0
    low, high = sorted((saved, serial))
    return low, high


def _is_worth(saved: tuple[float, float]) -> bool:
    return sum(saved) / 2 >= WORTH


def _bounds(saved: Saved) -> tuple[float, float]:
    return min(low for low, _ in saved.values()), max(high for _, high in saved.values())


def _range(outcome: Outcome, saved: Saved) -> str:
    """`2.1 % to 16 % of user time on 4 machines`, and on which of them most."""
    low, high = _bounds(saved)
    if -LEAST < low < 0:
        # Not `−<0.1 %`: which side of nothing it is on says nothing.
        low = 0.0
    span = (
        show_percent(low) if show_percent(low) == show_percent(high) else f"{show_percent(low)} to {show_percent(high)}"
    )
    most = max(saved, key=lambda machine: saved[machine][1])
    where = f"on {len(saved)} machines, most on {most}" if len(saved) > 1 else f"on {most}"
    return f"{span} of user time {where} ({'quick model' if outcome.is_quick else 'core in time'})"


def _resident(outcome: Outcome, policy: str) -> tuple[int, int]:
    """Bytes resident at the peak on the first machine, under the baseline and under a policy."""
    results = next(iter(outcome.machines.values()))
    small, large = (next(r for r in results if r.policy == p).resident_peak for p in (BASELINE, policy))
    return small, large


def _extra(small: int, large: int) -> str:
    more = large - small
    said = f"{show_bytes(abs(more))} {'more' if more > 0 else 'less'} resident" if more else "as much resident"
    return f"{said} at the peak ({show_bytes(large)} in all)"


def _where(outcome: Outcome, machine: str, mapped: Sequence[Region]) -> str:
    """Which regions have the cost, and in which functions it arises."""
    total = sum(r.cost[BASELINE] for r in outcome.regions[machine]) or 1
    stalls = _shares((_named(r), r.cost[BASELINE] / total) for r in mapped)
    found: list[Function] = [f for f in outcome.functions[machine] if f.known]
    all_of_it = sum(f.cycles for f in outcome.functions[machine]) or 1
    by = _shares((shorten(f.name, NAME_WIDTH), f.cycles / all_of_it) for f in found)
    said = "; in ".join(part for part in (stalls, by) if part)
    return f"stalls for translations: {said or 'all hidden, in this model'}"


def _shares(parts: Iterable[tuple[str, float]]) -> str:
    return ", ".join(f"{show_percent(share)} {name}" for name, share in list(parts)[:NAMED] if share >= WORTH)


def _named(region: Region) -> str:
    """A region's name and size. Anonymous memory has no name of its own."""
    name = region.name.replace("anon", "anonymous memory", 1) if region.kind == "anon" else region.name
    size = show_bytes(region.end - region.start)
    # Counts of mappings and processes stand in brackets already.
    return f"{name[:-1]}, {size})" if name.endswith((" processes)", " mappings)")) else f"{name} ({size})"


def _gains(region: Region, policy: str) -> bool:
    """Whether a policy maps a region with another page size, and that region costs less with it."""
    other = region.size_under(policy) != region.size_under(BASELINE)
    return policy in region.cost and other and region.cost[policy] < region.cost[BASELINE]


def _pages(policy: str) -> str:
    named = {"linux-thp": "transparent 2 MB pages", "hugetlb-2m": "2 MB pages of the hugetlb pool"}
    return f"{named[policy]} ({policy})" if policy in named else f"the pages of {policy}"


def _nothing(outcome: Outcome) -> tuple[str, bool]:
    """Why no step is advised, and whether even the upper end is too little."""
    others = [p for p in outcome.policies if p != BASELINE]
    if not others:
        return f"Only {BASELINE} was run: there is nothing to compare it with.", True
    if outcome.here is not None and outcome.here.saves is False:
        return " ".join(["Leave the pages as they are.", *outcome.here.lines()]), True
    saved = {(m, p): saved_on(outcome, m, p) for m in outcome.machines for p in others}
    expected = max(0.0, *(low for low, _ in saved.values()))
    machine, policy = max(saved, key=lambda key: saved[key][1])
    most = max(0.0, saved[machine, policy][1])
    alone = "if no translation overlapped with other work"
    if most < WORTH:
        said = f"Leave the pages as they are: in this model, every policy saves {_below(expected)} of user time"
        if not outcome.is_quick:
            return f"{said}.", True
        both = f"even {alone}" if _below(expected) == _below(most) else f"and {_below(most)} {alone}"
        return f"{said}, {both}.", True
    given = f", {alone}" if outcome.is_quick else ""
    return (
        f"No change is advised: in this model, at most {show_percent(most)} of user time can be saved ({policy} on "
        f"{machine}{given}), of which the model expects {_below(expected)}.",
        False,
    )


def _below(share: float) -> str:
    """`at most 0.7 %`, or `less than 0.1 %`: a share that rounds to nothing has no figure."""
    shown = show_percent(share)
    return f"less than {show_percent(0.001)}" if not share or shown.startswith("<") else f"at most {shown}"
