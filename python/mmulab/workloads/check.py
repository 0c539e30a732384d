"""Whether a short recording is what its recipe says it is, and a generator what a recording of its algorithm is."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from mmulab import UserError, engine
from mmulab.workloads import twins
from mmulab.workloads.recipe import Json, Recipe
from mmulab.workloads.record import Options, Progress, Say, record

FIGURES = ("code_pages", "data_pages", "processes", "threads")


def _beside_its_twin(recipe: Recipe) -> Json:
    """Holds a generator to a recording of its own algorithm in real memory."""
    with _silent_program():
        found = twins.check(str(recipe.json["generate"].get("twin") or recipe.trace))
    return {"workload": recipe.name, "twin": asdict(found), "summary": found.summary(), "ok": found.same_pages}


@contextmanager
def _silent_program() -> Iterator[None]:
    """While it lasts, what a program of ours prints does not stand among our data."""
    kept = os.dup(1)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def check(recipe: Recipe, options: Options, say: Say, progress: Progress) -> Json:
    """Records a part of it and holds its figures to what is expected; `ok` is whether they are all within."""
    if recipe.trace:
        return _beside_its_twin(recipe)
    expect = recipe.expect
    if expect is None:
        reason = recipe.json.get("refused") or "its recipe has no [expect]"
        raise UserError(f"{recipe.name} cannot be checked: {reason}")
    skip, instructions = recipe.expect_part
    with tempfile.TemporaryDirectory(prefix="mmulab-check-") as directory:
        trace = Path(directory) / "check.mmt"
        part = replace(options, skip=skip, instructions=instructions)
        report = record(recipe, trace, part, say, progress)
        info = engine.trace_info(str(trace))
        ran = engine.run(
            str(trace), [engine.Job("skylake-e3-1240v5", "linux-4k")], engine.Options(unmapped="stop")
        ).results[0]
    figures = [{"figure": key, "found": info[key], "least": expect[key][0], "most": expect[key][1]} for key in FIGURES]
    figures.append(
        {"figure": "instructions", "found": info["instructions"], "least": min(instructions, 1), "most": None}
    )
    for each in figures:
        each["ok"] = each["least"] <= each["found"] and (each["most"] is None or each["found"] <= each["most"])
    return {
        "workload": recipe.name,
        "skip": skip,
        "figures": figures,
        "footprint_bytes": info["footprint_bytes"],
        "all_mapped": ran.complete,
        "lost": report["lost"],
        "ok": all(each["ok"] for each in figures) and ran.complete,
    }
