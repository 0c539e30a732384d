"""Every number has a range, which its schema declares and its refusal names: CHANGELOG number 17."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli

from mmulab import engine

MACHINE = "skylake-e3-1240v5"
TRACE = "gen:sequential?footprint=1M&references=100"
RUN = ("run", MACHINE, "--trace", TRACE)


def numbers(schema: Any, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each field of a schema that is a number or a size, with its place."""
    if isinstance(schema, list):
        for inner in schema:
            yield from numbers(inner, place)
    elif isinstance(schema, dict):
        kinds = schema.get("type", [])
        kinds = kinds if isinstance(kinds, list) else [kinds]
        refs = [schema.get("$ref", ""), *(each.get("$ref", "") for each in schema.get("anyOf", []))]
        if {"integer", "number"} & set(kinds) or "#/$defs/Bytes" in refs:
            yield place, schema
        for key, inner in schema.items():
            if key not in ("default", "examples", "const", "enum"):
                within_any_of = key == "anyOf" and "#/$defs/Bytes" in refs
                yield from () if within_any_of else numbers(inner, f"{place}/{key}")


@pytest.mark.parametrize("kind", ["machine", "policy", "reshape", "workload", "options"])
def test_every_number_declares_its_range(kind: str) -> None:
    """In machine and policy files, recipes, and what a run or a changed recording is asked."""
    schema = getattr(engine, f"{kind}_schema")()
    found = dict(numbers(schema, ""))
    assert found
    # A recipe's parameters mean whatever the recipe says.
    free = {"/$defs/Value/anyOf"}
    open_ended = {
        place
        for place, field in found.items()
        if not ({"minimum", "maximum"} <= field.keys() or {"x-least", "x-most"} <= field.keys())
    }
    assert open_ended - free == set()


def test_every_number_of_a_generator_declares_its_range() -> None:
    """And the reference shows it. Refusals and the ends of ranges: `crates/workload/tests/all/ranges.rs`."""
    generators = engine.generators()
    assert len(generators) > 30
    for name, schema in generators.items():
        for place, field in numbers(schema, name):
            assert {"minimum", "maximum"} <= field.keys() or {"x-least", "x-most"} <= field.keys(), place


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e18", "-1"])
@pytest.mark.parametrize(
    "key",
    [
        "costs.syscall",
        "costs.zero_bytes",
        "core.base_cpi",
        "core.frequency_mhz",
        "core.window",
        "core.count",
        "tlb.STLB.hit_cycles",
        "tlb.STLB.entries",
        "walker.count",
        "cache_rules.memory_cycles",
        "memory.pcp_batch",
        "memory.seed",
        "tlb_rules.asid_bits",
        "policy.linux.flush_ceiling",
    ],
)
def test_a_number_out_of_range_is_refused_in_words(key: str, value: str) -> None:
    """With the key, the value and the range, whatever the value is."""
    with pytest.raises(engine._core.UserError) as refused:
        engine.resolve(engine.Job(MACHINE, "linux-4k", (f"{key}={value}",)))
    shown = {"1e18": "1000000000000000000", "nan": "NaN"}.get(value, value)
    assert f"{key.removeprefix('policy.')} is {shown}" in str(refused.value)
    assert ": give " in str(refused.value)


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        ("core.base_cpi=1e308", ": give 0.01 to 100000"),
        ("core.base_cpi=fast", "core.base_cpi is 'fast', which is not a number: give 0.01 to 100000"),
        ("core.count=1.5", "core.count is 1.5: give a whole number, 1 to 1024"),
        ("memory.size=100T", "memory.size is 100T: give 16M to 15T"),
        ("memory.size=8X", "memory.size is '8X', which is not a number of bytes: give 16M to 15T"),
        ("policy.linux.fault_around=12K", "linux.fault_around is 12K: give a power of two from 4K to 2M"),
        ("table.levels=9", "table.levels is 9: give 3 to 5"),
        ("tlb.STLB.ways=0", "tlb.STLB.ways is 0: give 1 to 256"),
    ],
)
def test_what_is_allowed_is_said(assignment: str, said: str) -> None:
    """Of each kind of field: numbers, whole numbers, sizes, powers of two, and lists' entries by their names."""
    with pytest.raises(engine._core.UserError) as refused:
        engine.resolve(engine.Job(MACHINE, "linux-4k", (assignment,)))
    assert said in str(refused.value)


def test_a_file_is_refused_with_line_and_column(cli: Cli, tmp_path: Path) -> None:
    """Of the value, not only of the file."""
    text = cli("machines", "show", MACHINE).out
    lines = text.replace("entries = 1536", "entries = 0").splitlines()
    (tmp_path / "m.toml").write_text("\n".join(lines))
    line = next(n for n, text in enumerate(lines, 1) if text == "entries = 0")
    refused = cli("run", "./m.toml", "--trace", TRACE)
    assert refused.code == 2
    assert f"m.toml:{line}:11: tlb.STLB.entries is 0: give 1 to 65536" in refused.err


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--base-cpi", "nan", "nan is not a number from 0.01 to 100000"),
        ("--base-cpi", "inf", "inf is not a number from 0.01 to 100000"),
        ("--base-cpi", "-1", "-1 is not a number from 0.01 to 100000"),
        ("--base-cpi", "fast", "fast is not a number from 0.01 to 100000"),
        ("--savable", "nan", "nan is not a number from 0 to 1"),
        ("--savable", "2", "2 is not a number from 0 to 1"),
        ("--seed", "-1", "0<=x<=9223372036854775807"),
        ("--seed", "9223372036854775808", "0<=x<=9223372036854775807"),
        ("--quantum", "0", "1<=x<=9223372036854775807"),
        ("--threads", "100000", "1<=x<=1024"),
        ("--max-instructions", "99999999999T", "give 0 to 9223372036854775807"),
        ("--max-instructions", "nan", "is not a count"),
    ],
)
def test_an_option_out_of_range_is_refused_in_words(cli: Cli, option: str, value: str, said: str) -> None:
    """Before the engine sees it."""
    refused = cli(*RUN, option, value)
    assert refused.code == 2
    assert said in refused.err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (
            ("run", MACHINE, "--trace", "gen:zipf?exponent=nan"),
            "exponent is 'nan', which is not a number: give 0.01 to",
        ),
        (("trace", "head", "gen:gups?updates=1e18"), "updates is 1000000000000000000: give 0 to 1099511627776"),
        (("trace", "head", "gen:gups?footprint=3M"), "footprint is 3M: give a power of two from 4K to 64T"),
        (("machines", "fit", "--area-of", MACHINE, "--design", "mix", "--group", "-1", "16"), "1<=x<=512"),
        (("microbench", MACHINE, "ra", "--region", "3M"), "'3M': give 2M to 1T, a multiple of 2M"),
        (("microbench", MACHINE, "ra", "--group", "70000"), "0<=x<=512"),
        (("microbench", MACHINE, "ra", "--trace-repeats", "99999999999"), "1<=x<=1000000000"),
        (("record", "--system", "--memory", "9999T", "--", "true"), "'9999T': give 64M to 1T, a multiple of 1M"),
        (("record", "--system", "--memhog-chunk", "1K", "--", "true"), "'1K': give 4K to 1G, a multiple of 4K"),
        (
            ("run", MACHINE, "--trace", TRACE, "--heap", "jemalloc,dirty_decay_ms=-5"),
            "decay_ms is -5: give -1 to",
        ),
        (("run", MACHINE, "--trace", TRACE, "--heap", "glibc,top_pad=999T"), "top_pad is 999T: give 0 to 128G"),
    ],
)
def test_other_commands_have_ranges_too(cli: Cli, args: tuple[str, ...], said: str) -> None:
    """Numbers of every command."""
    refused = cli(*args)
    assert refused.code == 2
    assert said in " ".join(refused.err.split())


def test_the_largest_values_give_counts_that_are_not_cut_off() -> None:
    """At the ends of all ranges of costs: no sum is at its type's limit, as 18,446,744,073,709,551,615 was."""
    costs = ["syscall", "fault_entry", "base_frame", "table_frame", "entry_write", "flush_page", "space_switch"]
    most = [f"costs.{key}=1e7" for key in costs] + ["costs.zero_bytes=1000", "costs.copy_bytes=1000"]
    sets = (*most, "core.base_cpi=100000", "core.frequency_mhz=1")
    job = engine.Job(MACHINE, "linux-4k", sets)
    result = engine.run("gen:gups?footprint=1M&updates=2000", [job]).results[0]
    result.check()
    cycles = result.model["cycles"]
    assert cycles["total"] == cycles["base"] + result.translation_cycles + cycles["kernel"]
    assert cycles["base"] == result.instructions * 100_000
    assert 0 < cycles["kernel"] < 2**62


def test_the_reference_shows_ranges(cli: Cli, tmp_path: Path) -> None:
    """Of numbers, sizes and lists."""
    assert cli("docs", "reference").code == 0
    machine = (tmp_path / "reference" / "machine.md").read_text(encoding="utf-8")
    policy = (tmp_path / "reference" / "policy.md").read_text(encoding="utf-8")
    assert "| `base_cpi` | number, 0.01 to 100000 |" in machine
    assert "| `size` | string, 16M to 15T |" in machine
    assert "list of integer, each 2 to 5" in machine
    assert "[Bytes](#bytes), 4K to 2M, a power of two |" in policy
    generators = (tmp_path / "reference" / "generators.md").read_text(encoding="utf-8")
    assert "| `footprint` | size, 4K to 64T, a power of two | `64M` |" in generators
    assert "| `exponent` | number, 0.01 to 10 | `0.99` |" in generators
