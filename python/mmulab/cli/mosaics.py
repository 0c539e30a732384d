"""The second half of `mmulab try --mosaics`: the same mosaics simulated, and a model of time fitted to both."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rich_click as click
from rich.console import Console

from mmulab import engine, mosmodel
from mmulab.cli import console
from mmulab.engine import Job, Options
from mmulab.stopwatch import Setting
from mmulab.stopwatch.mosaics import Pool
from mmulab.stopwatch.pairs import FEWEST as FEWEST_PAIRS
from mmulab.stopwatch.process import Program
from mmulab.stopwatch.report import seconds as timed
from mmulab.tables import plain
from mmulab.units import show_count, show_percent

Json = dict[str, Any]


class Asked(click.ParamType["tuple[str, tuple[str, ...]]"]):
    """A policy, and what is set beside it."""

    name = "POLICY[,KEY=VALUE]..."

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, tuple[str, ...]]:
        """Reads it."""
        if isinstance(value, tuple):
            return value
        policy, *sets = (part.strip() for part in str(value).split(","))
        wrong = [one for one in sets if "=" not in one]
        if not policy or "=" in policy or wrong:
            self.fail(f"'{value}' is not a policy and changes: linux-thp,tlb.L2-DTLB.entries=6144", param, ctx)
        return policy, tuple(sets)


@dataclass(frozen=True)
class Ask:
    """What is simulated: the machine that was timed, and what else times are asked for."""

    machine: str
    others: tuple[tuple[str, tuple[str, ...]], ...]

    def check(self) -> None:
        """Raises what the engine says of a machine or a policy that there is not."""
        for policy, sets in (("linux-4k", ()), *self.others):
            engine.resolve(Job(self.machine, policy, sets))


def model(what: Program, pool: Pool, settings: Sequence[Setting], found: Json, ask: Ask) -> Json | None:
    """The model of what was timed (`found`) under these settings; None where too little was timed."""
    if len(found["settings"][0]["runs"]) < FEWEST_PAIRS or len(settings) < mosmodel.FEWEST:
        console.warn(
            f"no model: it takes {mosmodel.FEWEST} mosaics and {FEWEST_PAIRS} pairs or more (--mosaics, --pairs)"
        )
        return None
    with tempfile.TemporaryDirectory(prefix="mmulab-mosaics-") as directory:

        def record() -> tuple[mosmodel.Recorded, Options]:
            with console.progress("recording", closing=False) as on_progress:
                return mosmodel.record(what, pool, Path(directory) / "pool.mmt", on_progress), Options()

        with console.progress("simulating", closing=False) as on_progress:
            made = mosmodel.model(what, found["settings"], Job(ask.machine, ""), record, on_progress)
            others = [
                mosmodel.forecast(made.recorded, Job(ask.machine, policy, sets), made.options, on_progress)
                for policy, sets in ask.others
            ]
    return {
        "machine": ask.machine,
        "seconds": made.times.seconds,
        "noise": made.times.noise,
        "counts": [vars(one) for one in made.counts],
        **made.fitted.data(),
        "forecasts": [
            {"policy": policy, "set": list(sets), "counts": vars(one), "seconds": made.fitted.predict(one.features)}
            for (policy, sets), one in zip(ask.others, others, strict=True)
        ],
    }


def show(out: Console, settings: Sequence[Setting], found: Json) -> None:
    """Prints it."""
    table = plain(
        title="Time under each mosaic, and as a model says that was fitted to the others", title_justify="left"
    )
    table.add_column("mosaic", no_wrap=True)
    for name in ("timed", "±", "second-level hits", "walks", "cycles of walks", "model", "off by"):
        table.add_column(name, justify="right")
    rows = zip(settings, found["seconds"], found["noise"], found["counts"], found["held_back"], strict=True)
    for setting, seconds, noise, counts, told in rows:
        figures = [show_count(counts[key]) for key in ("hits", "walks", "cycles")]
        off = show_percent(told / seconds - 1, signed=True)
        table.add_row(setting.name, timed(seconds), show_percent(noise), *figures, timed(told), off)
    out.print(table)
    out.print(
        f"\nHeld-back mosaics were off by {show_percent(found['worst'])} at most, {show_percent(found['mean'])} on "
        f"average; a line through the first two is off by {show_percent(found['worst_line'])}. Times have an error of "
        f"their own, {show_percent(max(found['noise']))} at most.",
        soft_wrap=True,
    )
    for one in found["forecasts"]:
        name = ",".join([one["policy"], *one["set"]])
        saved = 1 - one["seconds"] / found["seconds"][0]
        out.print(
            f"{name}: {timed(one['seconds'])} (± {show_percent(found['worst'])}), saves {show_percent(saved)} "
            "beside base pages",
            markup=False,
            soft_wrap=True,
        )
