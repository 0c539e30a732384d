"""Results of a sweep, asked in SQL: the tables `jobs`, `regions` and `functions` in DuckDB."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmulab import UserError
from mmulab.extras import need
from mmulab.sweep.front import Row, front
from mmulab.sweep.store import Store
from mmulab.sweep.tables import FUNCTIONS, JOBS, REGIONS

TABLES = {"jobs": JOBS, "regions": REGIONS, "functions": FUNCTIONS}


@dataclass(frozen=True)
class Answer:
    """Rows with their columns' names."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


class Results:
    """The tables of a sweep's directory."""

    def __init__(self, directory: str | Path) -> None:
        """Raises UserError if the directory has no tables."""
        self.directory = Path(directory)
        self.axes: list[str] = [str(name) for name in Store(directory).manifest()["axes"]]
        for file in TABLES.values():
            if not (self.directory / file).is_file():
                raise UserError(
                    f"{self.directory}: no {file}, because the sweep has not ended\n"
                    "hint: repeat `mmulab sweep`; finished jobs are not run again"
                )

    def table(self, name: str) -> Any:
        """A table of pyarrow: `jobs`, `regions` or `functions`."""
        return need("pyarrow.parquet", "pyarrow", "reading results").read_table(self.directory / TABLES[name])

    def query(self, sql: str) -> Answer:
        """The answer to a query over these tables. It reads no other file and writes none."""
        duckdb = need("duckdb", "duckdb", "a query")
        with duckdb.connect() as connection:
            for name in TABLES:
                connection.register(name, self.table(name))
            connection.execute("SET enable_external_access = false")
            try:
                asked = connection.execute(sql)
                return Answer([column[0] for column in asked.description or []], asked.fetchall())
            except duckdb.Error as error:
                message = " ".join(str(error).split())
                raise UserError(
                    f"the query was refused: {message}\n"
                    f"hint: tables: jobs ({', '.join(self.axes)}, cycles, walks, l2d_misses, ...), regions and "
                    "functions; `mmulab results columns` lists all columns"
                ) from None

    def columns(self, name: str) -> list[tuple[str, str, str, str]]:
        """Each column's name, type, unit and meaning."""
        schema = self.table(name).schema
        return [
            (
                f.name,
                str(f.type),
                (f.metadata or {}).get(b"unit", b"").decode(),
                (f.metadata or {}).get(b"meaning", b"").decode(),
            )
            for f in schema
        ]

    def values(self, columns: Sequence[str], where: str | None = None) -> list[dict[str, Any]]:
        """These columns of the jobs that meet `where`, a condition in SQL. Raises UserError for an unknown column."""
        table = self.table("jobs")
        for column in columns:
            if column not in table.column_names:
                from difflib import get_close_matches

                near = get_close_matches(column, table.column_names, 1)
                meant = f"did you mean {near[0]}? " if near else ""
                raise UserError(
                    f"no column is named {column!r}\nhint: {meant}`mmulab results columns {self.directory}` lists all"
                )
        if where is not None:
            named = ", ".join(f'"{column}"' for column in columns)
            found = self.query(f"SELECT {named} FROM jobs WHERE ({where}) ORDER BY job")
            return [dict(zip(columns, row, strict=True)) for row in found.rows]
        rows: list[dict[str, Any]] = table.select(list(columns)).to_pylist()
        return rows

    def front(self, least: Sequence[str], most: Sequence[str] = (), where: str | None = None) -> list[Row]:
        """The jobs that no other job beats, with their numbers, axes and these columns; best in the first column first.

        In the columns of `least` less is better, in those of `most` more. `where`: only of these jobs.
        """
        columns = [*least, *most]
        if twice := [name for number, name in enumerate(columns) if name in columns[:number]]:
            raise UserError(f"{twice[0]} was given twice\nhint: give each column one direction")
        if not columns:
            raise UserError("no column was given\nhint: name at least one column, as cycles")
        rows = self.values(list(dict.fromkeys(["job", *self.axes, *columns])), where)
        return front(rows, columns, most)
