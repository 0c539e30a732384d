"""The table of functions of a sweep: named as in a study, adding up to the jobs, and empty without a profile."""

import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import CHECKOUT, Cli
from sweeps import MACHINE, TRACES

from mmulab import engine, sweep
from mmulab.study.places import functions

SOURCE = "int hot(int x) { return x + 1; }\nint cold(int x) { return hot(x) - 1; }\n"


def test_the_functions_of_a_job_are_those_of_its_lone_run_and_add_up(tmp_path: Path) -> None:
    trace = str(CHECKOUT / "tests" / "data" / "cc1-small.mmt")
    axes = {"trace": [TRACES[0], trace], "machine": MACHINE, "policy": ["linux-4k", "linux-thp"]}
    given = {"axes": axes, "options": {"max_instructions": "300k", "profile": True}}
    plan = sweep.plan(sweep.parse(given))
    sweep.run(plan, tmp_path, workers=1)
    results = sweep.Results(tmp_path)
    named = "function, code_file, is_named, file_offset"
    sql = f"SELECT {named}, l1_misses, walks, stall_cycles FROM functions WHERE job = {{}}"
    for number, job in enumerate(plan.jobs):
        (lone,) = engine.run(job.trace, [job.job], job.options).results
        found = functions(lone, job.trace)
        expected = [(f.name, f.file, f.known, f.start, f.misses, f.walks, f.cycles) for f in found]
        assert results.query(sql.format(number)).rows == expected
        assert len(expected) > 1 or job.trace.startswith("gen:")
    sums = "SELECT job, sum(walks), sum(l1_misses) FROM functions GROUP BY job ORDER BY job"
    assert (
        results.query(sums).rows
        == results.query("SELECT job, walks, l1i_misses + l1d_misses FROM jobs ORDER BY job").rows
    )


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler to make a file with symbols")
def test_symbols_of_a_file_name_its_functions(cli: Cli, tmp_path: Path) -> None:
    """And the schema has units and meanings."""
    (tmp_path / "a.c").write_text(SOURCE)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", "a.so", "a.c"], cwd=tmp_path, check=True)
    starts = {name: start for start, _, name in engine.elf_functions(str(tmp_path / "a.so"), ())[0]}
    lines = []
    for at, name in ((0x400000, "hot"), (0x500000, "cold")):
        lines += [f"mmap {at:#x} 64K rx file:{tmp_path}/a.so+0", f"f {at + starts[name]:#x} x100"]
    (tmp_path / "a.mmtx").write_text("\n".join(lines) + "\n")
    (tmp_path / "s.toml").write_text(f'[axes]\ntrace = "a.mmtx"\nmachine = "{MACHINE}"\n[options]\nprofile = true\n')
    assert cli("sweep", "s.toml", "--workers", "1").code == 0
    rows = cli(
        "results", "query", "sweep-s", "SELECT * FROM functions ORDER BY function DESC", "--format", "json"
    ).json()
    # For each mapping, one walk ends in a fault, and the next one finds the page.
    assert [(row["function"], row["is_named"], row["file_offset"], row["walks"]) for row in rows] == [
        (name, True, starts[name], 2) for name in ("hot", "cold")
    ]
    assert rows[0]["code_file"] == f"{tmp_path}/a.so"
    listed = cli("results", "columns", "sweep-s", "--format", "json").json()
    own = {row["column"]: row for row in listed if row["table"] == "functions"}
    assert (own["stall_cycles"]["unit"], own["file_offset"]["unit"]) == ("cycles", "bytes")
    assert all(row["meaning"] for row in own.values())


def test_without_a_profile_there_are_no_functions(tmp_path: Path) -> None:
    sweep.run(sweep.plan(sweep.parse({"axes": {"trace": TRACES[0], "machine": MACHINE}})), tmp_path, workers=1)
    assert sweep.Results(tmp_path).query("SELECT * FROM functions").rows == []
    assert sweep.Results(tmp_path).query("SELECT count(*) FROM regions").rows[0][0] > 0
