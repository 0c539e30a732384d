"""Tailored page sizes: pages of 16K to 1M in one TLB array, and what their alias PTEs cost."""

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli

MACHINE = "tps-haswell"
TRACE = "gen:gups?footprint=64M&updates=4000"
SIZES = ("16K", "64K", "256K", "1M")


def policy(directory: Path, *sizes: str) -> str:
    """A policy of mTHP with these sizes, without pages of 2M or zero pages, which loads get."""
    wanted = ", ".join(f'{size} = "always"' for size in sizes)
    text = f"""
base = "linux-thp-khugepaged"
name = "mthp"

[thp]
zero_page = false
sizes = {{ 2M = "never", {wanted} }}

[linux]
zero_page = false
"""
    path = directory / "mthp.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def run(cli: Cli, directory: Path, sizes: tuple[str, ...], *sets: str, check: bool = False) -> dict[str, Any]:
    """A run's counts."""
    more = [part for one in sets for part in ("--set", one)] + (["--check", "translations"] if check else [])
    ran = cli("run", MACHINE, "--trace", TRACE, "--policy", policy(directory, *sizes), *more, "--json")
    assert ran.code == 0, ran.err
    counts: dict[str, Any] = json.loads(ran.out)["counts"]
    return counts


def array(counts: dict[str, Any], name: str) -> dict[str, Any]:
    """A TLB array's counts."""
    found: dict[str, Any] = next(one for one in counts["arrays"] if one["name"] == name)
    return found


def reads(counts: dict[str, Any]) -> tuple[int, list[int]]:
    """Entries that walks read: of level 1, and of each level above."""
    by_level = {level["level"]: level["reads"] for level in counts["walks"]["levels"]}
    return by_level.pop(1), list(by_level.values())


@pytest.mark.parametrize("size", SIZES)
def test_an_array_holds_pages_of_the_size_that_the_kernel_maps(cli: Cli, tmp_path: Path, size: str) -> None:
    counts = run(cli, tmp_path, (size,), check=True)
    assert counts["memory"]["mapped"][size]["now"] > 0
    assert array(counts, "DTLB")["hits_by_size"][size] > 0
    # Without pages of that size in the table, the kernel maps the same blocks by base pages.
    radix = run(cli, tmp_path, (size,), "table.kind=x86-64-radix")
    assert size not in radix["memory"]["mapped"]
    assert array(radix, "DTLB")["misses"] > array(counts, "DTLB")["misses"]


def test_copies_save_the_second_read_and_nothing_else(cli: Cli, tmp_path: Path) -> None:
    pointers = run(cli, tmp_path, SIZES, check=True)
    copies = run(cli, tmp_path, SIZES, "table.tps.aliases=copy", check=True)
    assert pointers["arrays"] == copies["arrays"]
    assert pointers["memory"]["mapped"] == copies["memory"]["mapped"]
    (twice, above), (once, same) = reads(pointers), reads(copies)
    assert twice > once
    assert above == same


def test_every_power_of_two_is_a_page_of_its_own(cli: Cli, tmp_path: Path) -> None:
    sizes = ("16K", "32K", "64K", "128K", "256K", "512K", "1M")
    mapped = {size: run(cli, tmp_path, (size,))["memory"]["mapped"] for size in sizes}
    assert all(of[size]["now"] > 0 for size, of in mapped.items())
