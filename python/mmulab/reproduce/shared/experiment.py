"""What an experiment is: a plan whose fields are its options, what runs a plan, and what was found.

    Plan (fields: `declare.option`) --run, in a Session--> Findings --> DIR, page, JSON, terminal

The command, its help and the line of `mmulab reproduce list` follow from the declaration (`mmulab.cli.experiment`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from rich.console import Console

from mmulab import engine
from mmulab.reproduce.shared.cells import Figures, Store
from mmulab.result import Result, json_text, write_text

P = TypeVar("P")


class Tabled(Protocol):
    """What was found by an experiment whose findings are tables."""

    @property
    def complete(self) -> bool:
        """Whether all was run."""

    def tables(self) -> Mapping[str, str]:
        """As Markdown, by their names on a page."""

    def data(self) -> Any:
        """As JSON."""


F = TypeVar("F", bound=Tabled)
Show = Callable[[Console], None]
# What `--fresh` says of experiments that keep their runs.
FRESH = "Run again what was run before. Default: take it from the cache."
# What `--page` says where there are no plots.
TABLES = "Also put the tables into this page, between its marks."
PLOTS = "Also put the tables into this page, between its marks, and plots beside it."


@dataclass(frozen=True)
class Session:
    """Who follows an experiment, and where it may find what was run before."""

    # Called with the engine's progress.
    on_progress: engine.ProgressCallback | None = None
    # Called with a line when a part is done.
    say: Callable[[str], None] = lambda _line: None
    # Whether kept runs are run again.
    fresh: bool = False
    # Where everything is kept, if the user asked for it.
    directory: Path | None = None
    # Whether tables are to go into a page.
    page: bool = False

    def store(self, figure: Callable[[Figures], str]) -> Store:
        """Runs that are kept, of which each is announced when it is done. `figure`: what is said of it."""

        def announce(done: int, of: int, name: str, figures: Figures) -> None:
            self.say(f"{done}/{of} {name}: {figure(figures)}")

        return Store(announce, self.on_progress, self.fresh)

    def part(self, share: float) -> None:
        """Notes that this share of the experiment is done."""
        if self.on_progress:
            self.on_progress({"fraction": share})


@dataclass(frozen=True)
class Findings:
    """What an experiment found, as its command keeps it, puts it into a page and shows it."""

    # As JSON.
    data: Any
    # What the JSON is called in DIR.
    file: str
    # Other files of DIR: their texts by name.
    files: Mapping[str, str] = field(default_factory=dict)
    # Markdown tables by their names on a page.
    tables: Mapping[str, str] = field(default_factory=dict)
    # Plots by what their files' names end with, after the page's: nothing, if there is but one.
    plots: Mapping[str, str] = field(default_factory=dict)
    # Prints it for people, in place of the tables.
    show: Show | None = None
    # The file of DIR that gets what `show` prints.
    shown_in: str = ""
    warnings: Sequence[str] = ()
    # Runs whose end says whether all was run.
    results: Sequence[Result] = ()
    # Why not all was run, and how to go on; None if all was.
    unfinished: str | None = None

    def write(self, directory: Path) -> list[str]:
        """Writes all files but `shown_in`, and returns their names."""
        texts = {**self.files, self.file: json_text(self.data)}
        for name, text in texts.items():
            write_text(directory / name, text)
        return list(texts)


def tabled(
    experiment: str,
    tables: Mapping[str, str],
    data: Any,
    complete: bool,
    plots: Mapping[str, str] | None = None,
    again: str = "run it again",
) -> Findings:
    """Findings that are Markdown tables: DIR gets them, their JSON and their plots under the experiment's name."""
    files = {f"{experiment}.md": "\n\n".join(f"## {name}\n\n{table}" for name, table in tables.items()) + "\n"}
    # Nothing is drawn of a run that was stopped before its first result.
    drawn = {suffix: plot for suffix, plot in (plots or {}).items() if plot}
    files |= {f"{experiment}{suffix}.svg": plot for suffix, plot in drawn.items()}
    left = None if complete else f"{experiment}: what was not run is left out; {again} to go on from there"
    return Findings(data, f"{experiment}.json", files, tables, drawn, unfinished=left)


def run_for_tables(
    experiment: str,
    run: Callable[[P, Store], F],
    figure: Callable[[Figures], str],
    plot: Callable[[F], str] | None = None,
) -> Callable[[P, Session], Findings]:
    """What runs an experiment whose findings are tables and at most one plot. `figure`: what is said of each run."""

    def run_plan(plan: P, session: Session) -> Findings:
        outcome = run(plan, session.store(figure))
        drawn = {"": plot(outcome)} if plot else None
        return tabled(experiment, outcome.tables(), outcome.data(), outcome.complete, drawn)

    return run_plan


@dataclass(frozen=True)
class Experiment(Generic[P]):
    """A command of `mmulab reproduce`. The plan's docstring is its help."""

    name: str
    # What it is, and which paper has it where: the line of `mmulab reproduce list`.
    title: str
    source: str
    plan: type[P]
    run: Callable[[P, Session], Findings]
    # What the progress bar says.
    running: str
    # Help of `--fresh`, `--out`, `--page` and `--json`; None where there is no such option.
    fresh: str | None = None
    out: str = "Also keep everything there."
    page: str | None = None
    json: str = "Write JSON in place of the tables."
