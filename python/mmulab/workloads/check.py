"""Whether a short recording is what its recipe says it is, and a generator what a recording of its algorithm is."""

import json
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

# What a mix must have as often as its members have it alone.
OF_MEMBERS = ("instructions", "references", "code_pages", "data_pages", "processes")
FIGURES = ("code_pages", "data_pages", "processes", "threads")


def _beside_its_twin(recipe: Recipe) -> Json:
    """Holds a generator to a recording of its own algorithm in real memory."""
    with _silent_program():
        found = twins.check(str(recipe.json["generate"].get("twin") or recipe.trace))
    return {"workload": recipe.name, "twin": asdict(found), "summary": found.summary(), "ok": found.same_pages}


def _beside_its_members(recipe: Recipe) -> Json:
    """Holds what a mix refers to, run until all have ended, to the sum of what its members refer to alone."""
    mixed = recipe.mixed()
    mixed["schedule"] = {**mixed["schedule"], "end": "all", "instructions": None}

    def info(members: list[Json]) -> Json:
        return engine.trace_info(f"mix:{json.dumps({**mixed, 'members': members})}")

    found = info(mixed["members"])
    alone = [info([{**member, "core": None, "after": 0}]) for member in mixed["members"]]
    sums = {key: sum(each[key] for each in alone) for key in OF_MEMBERS}
    figures = [
        {"figure": key, "found": found[key], "alone": sums[key], "ok": found[key] == sums[key]} for key in OF_MEMBERS
    ]
    return {
        "workload": recipe.name,
        "members": [member["name"] for member in mixed["members"]],
        "figures": figures,
        "summary": f"{len(alone)} members: " + ", ".join(_beside(each) for each in figures),
        "ok": all(each["ok"] for each in figures),
    }


def _beside(figure: Json) -> str:
    same = "" if figure["ok"] else f" (alone {figure['alone']:,})"
    return f"{figure['found']:,} {figure['figure'].replace('_', ' ')}{same}"


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
    if recipe.mix:
        return _beside_its_members(recipe)
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
