"""What the stopwatch found, as text: times, pages in force, and one sentence a comparison."""

import statistics
from pathlib import PurePosixPath
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mmulab.stopwatch.settings import moves_code
from mmulab.tables import plain
from mmulab.units import show_bytes, show_percent

Json = dict[str, Any]
# Memory that comes late without much harm: at 3 to 10 microseconds a page (docs/results/forecast-causes.md) 12 to 40
# ms.
LITTLE = 16 << 20
_TIMES = (("wall_s", "wall"), ("user_s", "user"), ("kernel_s", "kernel"))


def seconds(value: float) -> str:
    """`0.0123` as `12.3 ms`."""
    return f"{value:.3g} s" if value >= 1 else f"{value * 1000:.3g} ms"


def spread(values: list[float]) -> float:
    """The middle half, as a share of the median."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / max(statistics.median(values), 1e-9)


def times(found: Json) -> Table:
    """Medians by setting, and what each saves beside the first."""
    table = plain()
    table.add_column("setting", no_wrap=True)
    for name in ("pairs", "wall", "spread", "user", "kernel", "saves wall", "saves user", "saves kernel", "faults"):
        table.add_column(name, justify="right", no_wrap=True)
    counted = all(run["counts"] for one in found["settings"] for run in one["runs"])
    names = sorted({n for one in found["settings"] for run in one["runs"] for n in run["counts"]}) if counted else []
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    against = {c["setting"]: c for c in found["comparisons"]}
    for one in found["settings"]:
        runs = one["runs"]
        if not runs:
            table.add_row(one["name"], "0")
            continue
        medians = {key: statistics.median(run[key] for run in runs) for key, _ in _TIMES}
        table.add_row(
            one["name"],
            str(len(runs)),
            seconds(medians["wall_s"]),
            show_percent(spread([run["wall_s"] for run in runs])),
            seconds(medians["user_s"]),
            seconds(medians["kernel_s"]),
            *(_saving(against.get(one["name"], {}).get(key)) for key, _ in _TIMES),
            f"{statistics.median(run['minor_faults'] for run in runs):,.0f}",
            *(f"{statistics.median(run['counts'][name] for run in runs):,.0f}" for name in names),
        )
    return table


def _saving(share: Json | None) -> str:
    if not share:
        return ""
    low, high = (f"{100 * share[key]:.1f}" for key in ("low", "high"))
    return f"{100 * share['saving']:.1f} % ({low} to {high})"


def pages(one: Json) -> str:
    """One line: which pages a setting really gave."""
    force = one["in_force"]
    if not force:
        return f"{one['name']}: not run"
    size = force["bytes"]
    if not size or not size["Rss"]:
        text = "its pages were not seen: it ended too soon"
    else:
        huge = size["AnonHugePages"]
        of = size["Anonymous"]
        text = (
            f"{show_bytes(huge)} of {show_bytes(of)} anonymous memory in 2 MB pages, {show_bytes(size['Rss'])} resident"
        )
        if pool := size["Private_Hugetlb"] + size["Shared_Hugetlb"]:
            text += f", {show_bytes(pool)} from the pool"
    if one["wants"] == ["mosaic"]:
        text = f"{one['about']}; {text}"
    if (pages := force.get("pages_of_size")) is not None:
        text += f"; faults of the whole system got {pages:,} pages of this size"
    if force["code_moved"]:
        text += f"; code: {show_bytes(force['code_huge'])} of {show_bytes(force['code_bytes'])} on 2 MB pages"
    return f"{one['name']}: {text}"


def sections(one: Json) -> Table | None:
    """How much of each section of code lies on 2 MB pages: of the files of which something was moved."""
    rows = one["in_force"].get("code_sections", [])
    files = {row["file"] for row in rows if row["moved"]}
    if not files:
        return None
    table = plain()
    table.add_column(f"code under {one['name']}", no_wrap=True)
    table.add_column("section", no_wrap=True)
    for name in ("bytes", "moved", "on 2 MB pages", "share"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        if row["file"] in files:
            sizes = (show_bytes(row[key]) for key in ("bytes", "moved", "huge"))
            name = PurePosixPath(row["file"]).name
            table.add_row(escape(name), escape(row["section"]), *sizes, show_percent(row["huge"] / row["bytes"]))
    others = {row["file"] for row in rows} - files
    if others:
        rest = sum(row["bytes"] for row in rows if row["file"] in others)
        table.add_row(f"{len(others)} other files", "", show_bytes(rest), "0 B", "0 B", show_percent(0))
    return table


def remarks(found: Json) -> list[str]:
    """What a reader must know beside the figures; each is a warning."""
    said = []
    for one in found["settings"]:
        force, wants = one["in_force"], one["wants"]
        if not force:
            continue
        if wants and not force["preloaded"]:
            said.append(
                f"{one['name']}: the program did not load the library that sets its pages (statically linked, or with "
                "rights of another user): only 4k and asis mean anything for it"
            )
        elif "mosaic" in wants and not force["pool"]:
            said.append(f"{one['name']}: the program maps no 2 MB through libc, so it had no mosaic")
        elif moves_code(wants) and not force["code_moved"]:
            why = "the kernel refused" if force.get("code_whole") else "none of its code is 2 MB long and aligned"
            said.append(f"{one['name']}: {why}, so nothing was moved")
        collapsed = sum(run["vmstat"].get("thp_collapse_alloc", 0) for run in one["runs"])
        if collapsed:
            said.append(
                f"{one['name']}: khugepaged or madvise collapsed {collapsed} times 2 MB in this system during its "
                f"{len(one['runs'])} runs, for this program or another"
            )
        failed = sum(run["vmstat"].get("thp_fault_fallback", 0) for run in one["runs"])
        if failed and "anon" in wants:
            said.append(
                f"{one['name']}: {failed} times the kernel had no free 2 MB block at a fault (system-wide count)"
            )
    load, cpus = found.get("load_average", 0.0), found.get("cpus", 1)
    # This program itself is one of those that want to run.
    if load > cpus + 1:
        said.append(
            f"this computer is busy (load average {load:.1f} on {cpus} CPUs): wall times measure the others too, "
            "so look at user and kernel times, or try again later"
        )
    sizes = [one["in_force"].get("bytes", {}) for one in found["settings"] if one["in_force"]]
    most = max((size.get("Anonymous", 0) for size in sizes), default=0)
    if found.get("free_page_reporting") and most > LITTLE:
        said.append(
            "this guest gives free pages back to its host (virtio's free page reporting), so each run waits for its "
            f"{show_bytes(most)} at first accesses: times scatter, and long runs are compared better than short ones"
        )
    if found.get("reached") is False:
        said.append("the interval asked for with --until was not reached before the limit of --pairs")
    return said


def print_found(out: Console, found: Json) -> None:
    """All of it."""
    out.print(times(found))
    out.print()
    for one in found["settings"]:
        out.print(pages(one), markup=False, soft_wrap=True)
    out.print()
    for one in found["settings"]:
        if (table := sections(one)) is not None:
            out.print(table)
            out.print()
    for comparison in found["comparisons"]:
        text = f"{comparison['setting']} beside {comparison['baseline']}: {comparison['verdict']}"
        out.print(text, markup=False, soft_wrap=True)
