"""The experiments that time programs on this computer, as commands."""

from dataclasses import dataclass
from pathlib import Path

from mmulab import forecast as forecasts
from mmulab.forecast import page
from mmulab.reproduce.shared.experiment import TABLES, Experiment, Findings, Session, tabled
from mmulab.reproduce.this_computer import forecast, mosaics
from mmulab.result import write_text

_PAGE = "forecast.md"


@dataclass(frozen=True)
class _Forecast(Findings):
    """A processor's forecasts. The page in DIR has a section for each processor's file there."""

    def write(self, directory: Path) -> list[str]:
        """Writes the file, and then the page of all files."""
        names = super().write(directory)
        write_text(directory / _PAGE, page.write(directory))
        return [*names, _PAGE]


def _forecast(plan: forecast.Plan, session: Session) -> Findings:
    found = forecasts.run(plan.described(), session.part)
    left = None
    if not found["complete"]:
        left = f"interrupted after {len(found['cases'])} programs; run it again to go on from there"
    return _Forecast(
        found,
        page.file_name(found["processor"]),
        show=lambda out: out.print(page.section(found), markup=False, soft_wrap=True),
        unfinished=left,
    )


FORECAST = Experiment(
    "forecast",
    "programs timed on this computer under 4 KB and 2 MB pages, beside times of its description",
    "no paper: a stopwatch",
    forecast.Plan,
    _forecast,
    "timing and modelling",
    out="Write the processor's JSON there, and forecast.md of all processors' files in it.",
    json="Write JSON instead of the page's section.",
)


def _mosaics(plan: mosaics.Plan, session: Session) -> Findings:
    outcome = mosaics.run(plan, session.part)
    return tabled("mosaics", outcome.tables(), outcome.data(), outcome.complete)


MOSAICS = Experiment(
    "mosaics",
    "programs timed on this computer under mosaics of 2 MB and 4 KB pages, and a model fitted to each (Mosmodel)",
    "Agbarya and others, MICRO 2020",
    mosaics.Plan,
    _mosaics,
    "timing and modelling",
    page=TABLES,
)
