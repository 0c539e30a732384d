"""Tables of a sweep as Parquet: a row for each job, for each region of a job, and for each function of a job.

Rows follow the plan, and nothing depends on the time or on the order in which jobs ended: the same sweep gives the same
bytes.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mmulab import Failure
from mmulab.extras import need
from mmulab.study.places import functions
from mmulab.sweep.area import Areas
from mmulab.sweep.columns import AREA, COLUMNS, FUNCTION_COLUMNS, REGION_COLUMNS, Column
from mmulab.sweep.constraint import Value
from mmulab.sweep.plan import SweepJob
from mmulab.sweep.store import Store

JOBS, REGIONS, FUNCTIONS = "results.parquet", "regions.parquet", "functions.parquet"
_SERVES = "results.parquet"


def write_tables(store: Store, jobs: Sequence[SweepJob]) -> int:
    """Writes the tables for the jobs that are done; how many these are.

    Functions are of jobs that keep a profile. They have their names from the files of this computer, as in a study.
    """
    arrow = need("pyarrow", "pyarrow", _SERVES)
    swept = swept_columns(jobs)
    rows: dict[str, list[Any]] = {column.name: [] for column in (*swept, *COLUMNS, AREA)}
    places: dict[str, list[Any]] = {column.name: [] for column in (*swept, *REGION_COLUMNS)}
    code: dict[str, list[Any]] = {column.name: [] for column in (*swept, *FUNCTION_COLUMNS)}
    areas, done = Areas(), 0
    for number, job in enumerate(jobs):
        result = store.load(job.key)
        if result is None:
            continue
        done += 1
        own = {"job": number, "key": job.key, **job.values}
        _append(rows, swept, own)
        _append(rows, COLUMNS, result)
        _append(rows, [AREA], areas.cells(job.job))
        for region in result.regions:
            _append(places, swept, own)
            _append(places, REGION_COLUMNS, region)
        for function in functions(result, job.trace, with_sources=False) if job.options.profile else ():
            _append(code, swept, own)
            _append(code, FUNCTION_COLUMNS, function)
    _write(arrow, store.directory / JOBS, (*swept, *COLUMNS, AREA), rows)
    _write(arrow, store.directory / REGIONS, (*swept, *REGION_COLUMNS), places)
    _write(arrow, store.directory / FUNCTIONS, (*swept, *FUNCTION_COLUMNS), code)
    return done


def swept_columns(jobs: Sequence[SweepJob]) -> list[Column]:
    """A job's number and hash, and a column for each axis."""
    found = [
        Column("job", "int", "", "number of the job within the sweep", lambda own: own["job"]),
        Column("key", "str", "", "hash of the trace, the descriptions, the options and mmulab", lambda own: own["key"]),
    ]
    for name in jobs[0].values:
        kind = _kind(job.values[name] for job in jobs)
        found.append(Column(name, kind, "", "axis of the sweep", _axis(name)))
    return found


def _axis(name: str) -> Any:
    return lambda own: own[name]


def _kind(values: Iterable[Value]) -> str:
    kinds = {type(value).__name__ for value in values}
    return kinds.pop() if len(kinds) == 1 else "float" if kinds == {"int", "float"} else "str"


def _append(rows: dict[str, list[Any]], columns: Iterable[Column], of: Any) -> None:
    for column in columns:
        value = column.value(of)
        rows[column.name].append(float(value) if column.kind == "float" and value is not None else value)


def _write(arrow: Any, path: Path, columns: Sequence[Column], rows: dict[str, list[Any]]) -> None:
    parquet = need("pyarrow.parquet", "pyarrow", _SERVES)
    types = {"int": arrow.int64(), "float": arrow.float64(), "bool": arrow.bool_(), "str": arrow.string()}
    fields = [arrow.field(c.name, types[c.kind], metadata={"unit": c.unit, "meaning": c.meaning}) for c in columns]
    table = arrow.table([arrow.array(rows[c.name], types[c.kind]) for c in columns], schema=arrow.schema(fields))
    partial = path.with_name(path.name + ".part")
    try:
        parquet.write_table(table, partial, compression="zstd")
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise Failure(f"{path}: {error}\nhint: choose another directory with --out") from None
