"""The published JSON schemas: written from the code, complete, and true of what is written (CHANGELOG number 23)."""

import copy
import json
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import narration
import pytest
from conftest import CHECKOUT, Cli
from jsonschema import Draft202012Validator

from mmulab import engine
from mmulab.cli.docs import schema_text

PUBLISHED = {
    "result.schema.json": engine.result_schema,
    "explain.schema.json": engine.explain_schema,
    "hints.schema.json": engine.hints_schema,
}
COMPILER = CHECKOUT / "tests" / "data" / "cc1-small.mmt"
GUPS = "gen:gups?footprint=4M&updates=300"
# More mappings that come and go than keep a row each.
FOLDED = 3000


def closed(schema: Any, is_part: bool = False) -> Any:
    """The schema with every object closed: a key that it does not describe is an error. Parts of a whole stay open."""
    if isinstance(schema, list):
        return [closed(item, is_part) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out = {
        key: {name: closed(inner) for name, inner in value.items()}
        if key in ("properties", "$defs")
        else closed(value, key in ("allOf", "anyOf", "oneOf") and "properties" in schema)
        for key, value in schema.items()
    }
    if "properties" in schema and not is_part:
        out["unevaluatedProperties"] = False
    return out


def validator(name: str) -> Draft202012Validator:
    """Of a published schema, closed."""
    published = json.loads((CHECKOUT / "docs" / "reference" / name).read_text("utf-8"))
    Draft202012Validator.check_schema(published)
    return Draft202012Validator(closed(copy.deepcopy(published)))


def faults(name: str, data: Any) -> list[str]:
    """What the schema finds wrong."""
    return [f"{error.json_path}: {error.message[:300]}" for error in validator(name).iter_errors(data)][:5]


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_schemas_are_the_codes(name: str) -> None:
    """`make docs` writes them."""
    assert (CHECKOUT / "docs" / "reference" / name).read_text("utf-8") == schema_text(PUBLISHED[name]())


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_field_is_described(name: str) -> None:
    """In the schema, with a sentence; and so on the page made of it."""

    def bare(schema: Any, at: str) -> list[str]:
        if isinstance(schema, list):
            return [found for item in schema for found in bare(item, at)]
        if not isinstance(schema, dict):
            return []
        out = []
        for key, field in schema.get("properties", {}).items():
            if "description" not in field and "const" not in field:
                out.append(f"{at}.{key}")
        for key, inner in schema.items():
            named = isinstance(inner, dict) and key in ("properties", "$defs")
            parts = inner.items() if named else [("", inner)]
            out += [found for name, part in parts for found in bare(part, f"{at}.{name}" if name else at)]
        return out

    assert bare(PUBLISHED[name](), "") == []


JOBS = [
    engine.Job("skylake-e3-1240v5", "linux-thp"),
    engine.Job("zen3-5900x", "linux-4k"),
    engine.Job("haswell-mix", "linux-thp"),
    engine.Job("haswell-skew", "linux-4k"),
    engine.Job("haswell-hash-rehash", "linux-4k"),
    engine.Job("compendia-baseline", "linux-4k", ("table.kind=compendia",)),
    engine.Job("compendia-nested", "linux-thp", (), "linux-thp"),
    engine.Job("zen3-5900x", "linux-4k", ("virtual.memory.size=64M", "virtual.mode=shadow"), "linux-4k"),
    engine.Job("elastic-cuckoo", "linux-4k"),
    engine.Job("neoverse-n1", "freebsd-reserv"),
    engine.Job("skylake-e3-1240v5", "hugetlb-2m", ("policy.hugetlb.pool=64M",)),
]


def shape(data: Any) -> Hashable:
    """What a schema tells apart: keys, words, and kinds of values; numbers are alike, but for their sign."""
    if isinstance(data, dict):
        return frozenset((key, shape(value)) for key, value in data.items())
    if isinstance(data, list):
        return frozenset(map(shape, data))
    return (type(data), data < 0) if isinstance(data, int | float) else data


@pytest.mark.parametrize("job", JOBS, ids=lambda job: "-".join([job.machine, job.policy, *job.sets]))
def test_results_and_lines_are_what_their_schemas_say(job: engine.Job) -> None:
    """Of a generator and of a compiler, with all that can be asked for."""
    for trace in (GUPS, str(COMPILER)):
        options = engine.Options(touched=True, profile=True, max_instructions=6_000)
        lines, result = narration.narrate(trace, job, options)
        assert faults("result.schema.json", result) == []
        check = validator("explain.schema.json")
        # One line of each shape: thousands differ in their numbers alone.
        shapes = {shape(line): line for line in lines}
        assert len(shapes) > 5
        wrong = [error.message[:300] for line in shapes.values() for error in check.iter_errors(line)]
        assert wrong[:3] == []


def test_results_of_shader_cores_and_mixes(cli: Cli, tmp_path: Path) -> None:
    """Warps have counts of their own, members of a mix too."""
    options = engine.Options(max_instructions=20_000)
    warps = engine.run(
        "gen:gpu-bfs?cores=2&warps=16", [engine.Job("gpu-mix-baseline", "linux-4k", ("core.count=2",))], options
    )
    assert faults("result.schema.json", warps.results[0].data) == []
    ran = cli("run", "skylake-e3-1240v5", "--trace", "mix:two-gups", "--max-instructions", "100k", "--json")
    assert ran.code == 0, ran.err
    assert ran.json()["members"]
    assert faults("result.schema.json", ran.json()) == []


def test_results_of_cores_in_time() -> None:
    """Where the cycles of a core in time went is described, too."""
    options = engine.Options(timing=True, max_instructions=20_000)
    for trace in (GUPS, str(COMPILER)):
        [result] = engine.run(trace, [engine.Job("skylake-e3-1240v5", "linux-thp")], options).results
        assert sum(result.data["timing"]["stack"]["walk"]) > 0
        assert faults("result.schema.json", result.data) == []


def test_results_with_rows_that_sum_up_unmapped_regions(tmp_path: Path) -> None:
    """A folded row, and zero pages that are mapped in a region."""
    text = "mmap 0x400000 64K r anon\nr 0x400000\n"
    for i in range(FOLDED):
        va = 0x1000000000 + i * 3 * 4096
        text += f"mmap {va:#x} 4K rw anon\nw {va:#x}\nmunmap {va:#x} 4K\n"
    (tmp_path / "t.mmtx").write_text(text)
    jobs = [engine.Job("skylake-e3-1240v5", "linux-4k")]
    [result] = engine.run(str(tmp_path / "t.mmtx"), jobs, engine.Options()).results
    assert any("folded" in region for region in result.data["regions"])
    assert any("mapped_zero" in region for region in result.data["regions"])
    assert faults("result.schema.json", result.data) == []


def test_a_key_that_is_not_described_is_found() -> None:
    """The test can fail: of a result, of a line, and of something deep in either."""
    lines, result = narration.narrate(GUPS, JOBS[0], engine.Options())
    assert faults("result.schema.json", result) == []
    assert faults("result.schema.json", {**result, "more": 1})
    result["counts"]["walks"]["more"] = 1
    assert faults("result.schema.json", result)
    line = next(line for line in lines if line["walk"])
    assert faults("explain.schema.json", line) == []
    line["walk"][0]["more"] = 1
    assert faults("explain.schema.json", line)
    line["walk"][0].pop("more")
    line["l1"] = "perhaps"
    assert faults("explain.schema.json", line)
