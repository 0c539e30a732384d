"""The experiments of paper 3, as commands."""

from typing import Any

from mmulab.reproduce.elastic import (
    beyond,
    everything,
    fault_latency,
    fault_path,
    mixes,
    plots,
    samplers,
    sizes,
    systems,
)
from mmulab.reproduce.shared import in_turn
from mmulab.reproduce.shared.cells import Figures
from mmulab.reproduce.shared.experiment import (
    FRESH,
    PLOTS,
    TABLES,
    Experiment,
    Findings,
    Session,
    run_for_tables,
    tabled,
)


def _mean(figures: Figures) -> str:
    most = max(figures.fault_latency, key=lambda row: int(row["faults"]))
    return f"{most['mean_us']:.3g} us a fault"


FAULT_LATENCY = Experiment(
    "elastic-fault-latency",
    "how long page faults of 4K to 32M take: 4K, mTHP, THP, CoalaPaging, synchronous, cleared ahead",
    "paper 3, Figure 15",
    fault_latency.Plan,
    run_for_tables("elastic-fault-latency", fault_latency.run, _mean, plots.of_fault_latency),
    "touching pages",
    fresh=FRESH,
    page=PLOTS,
)


def _path(plan: fault_path.Plan, session: Session) -> Findings:
    outcome = fault_path.run(plan, session)
    # It is whole, or it failed.
    return tabled("elastic-fault-path", outcome.tables(), outcome.data(), complete=True)


FAULT_PATH = Experiment(
    "elastic-fault-path",
    "what a real Linux does in a page fault, counted in recordings of whole systems, beside the simulated prices",
    "paper 3, Figure 15",
    fault_path.Plan,
    _path,
    "counting the kernel's instructions",
    page=TABLES,
)


def _cycles(figures: Figures) -> str:
    return f"{figures.cycles['total']:.3g} cycles"


def _systems(plan: systems.Plan, session: Session) -> Findings:
    outcome = systems.run(plan, session.store(_cycles))
    # Each way of running them has a plot of its own beside the page.
    suffix = "-" + outcome.prefix.removesuffix("-") if outcome.prefix else ""
    drawn = {suffix: plots.of_systems(outcome)}
    return tabled(f"elastic-{outcome.prefix}systems", outcome.tables(), outcome.data(), outcome.complete, drawn)


SYSTEMS = Experiment(
    "elastic-systems",
    "THP, mTHP, HawkEye and Elastic Translations part by part: time, TLB misses, translation sizes",
    "paper 3, Figures 8 to 12",
    systems.Plan,
    _systems,
    "running systems",
    fresh=FRESH,
    page=PLOTS,
)


SIZES = Experiment(
    "elastic-sizes",
    "64K, 2M, 32M and 1G pages from pools against 4K, natively and in virtual machines",
    "paper 3, Figure 2",
    sizes.Plan,
    run_for_tables("elastic-sizes", sizes.run, _cycles, plots.of_sizes),
    "running page sizes",
    fresh=FRESH,
    page=PLOTS,
)


SAMPLING = Experiment(
    "elastic-sampling",
    "page sizes selected of TLB misses, of accessed bits, and while the program runs",
    "paper 3, Figure 13",
    samplers.Plan,
    run_for_tables("elastic-sampling", samplers.run, _cycles, plots.of_samplers),
    "running with hints",
    fresh=FRESH,
    page=PLOTS,
)


MIXES = Experiment(
    "elastic-mixes",
    "three mixes of programs that run at once: what each gains by THP and Elastic Translations",
    "paper 3, Figure 14",
    mixes.Plan,
    run_for_tables("elastic-mixes", mixes.run, _cycles, plots.of_mixes),
    "running mixes",
    page=PLOTS,
)


BEYOND = Experiment(
    "elastic-beyond",
    "what Elastic Translations leave open: 1G, demotion, hints of guests, x86's coalescing, Svnapot",
    "paper 3, sections V-A and V-B",
    beyond.Plan,
    run_for_tables("elastic-beyond", beyond.run, _cycles),
    "running with hints",
    fresh=FRESH,
    page=TABLES,
)

_BY_COMMAND: dict[str, Experiment[Any]] = {
    experiment.name.removeprefix("elastic-"): experiment
    for experiment in (SIZES, SYSTEMS, SAMPLING, MIXES, FAULT_LATENCY, BEYOND)
}


def _everything(plan: everything.Plan, session: Session) -> Findings:
    parts = [everything.PARTS[name] for name in everything.PARTS if not plan.parts or name in plan.parts]
    steps = [in_turn.Step(_BY_COMMAND[command], given) for command, given in parts]
    return in_turn.run(plan, session, steps, "elastic.json")


EVERYTHING = Experiment(
    "elastic",
    "all of paper 3 in turn: the experiments above",
    "paper 3, Figures 2 and 8 to 15",
    everything.Plan,
    _everything,
    "reproducing paper 3",
    fresh=FRESH,
)
