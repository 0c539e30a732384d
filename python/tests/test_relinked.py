"""Recorded programs as another linker would have laid them out."""

from pathlib import Path

import pytest
from bench import Json
from conftest import Cli

from mmulab import Failure, engine
from mmulab.workloads import record as recipes

RECORDED = str(Path(__file__).parents[2] / "tests" / "data" / "cc1-small.mmt")
POLICIES = ("freebsd-noresv", "freebsd-reserv", "freebsd-super")


def compiled(max_page_size: str) -> dict[str, Json]:
    """What the recorded compiler counts on a Zen 3 under each policy, linked by LLD."""
    options = engine.Options(unmapped="stop", reshape={"image": {"max_page_size": max_page_size}})
    ran = engine.run(RECORDED, [engine.Job("zen3-5900x", policy) for policy in POLICIES], options).results
    assert all(result.complete for result in ran)
    return {policy: result.data["counts"] for policy, result in zip(POLICIES, ran, strict=True)}


def code_hits(counts: Json, size: str) -> int:
    """Hits of instruction TLBs' entries of a size."""
    return sum(int(a["hits_by_size"].get(size, 0)) for a in counts["arrays"] if a["side"] == "instruction")


def test_a_compiler_linked_with_4_kb_has_no_coalesced_code() -> None:
    counts = compiled("4K")
    reserved = counts["freebsd-reserv"]
    assert code_hits(reserved, "16K") == code_hits(counts["freebsd-super"], "2M") == 0
    # Of data there is: it is of no file.
    assert reserved["tlb"]["l1d"]["misses"] < counts["freebsd-noresv"]["tlb"]["l1d"]["misses"]
    assert reserved["tlb"]["l1i"]["misses"] > 0.95 * counts["freebsd-noresv"]["tlb"]["l1i"]["misses"]


def test_reservations_serve_a_compiler_linked_with_2_mb() -> None:
    counts = compiled("2M")
    without, reserved, superpages = (counts[policy]["tlb"] for policy in POLICIES)
    assert reserved["l1i"]["misses"] < 0.5 * without["l1i"]["misses"]
    assert reserved["l2i"]["misses"] < without["l2i"]["misses"]
    assert superpages["l1i"]["misses"] <= reserved["l1i"]["misses"]
    assert superpages["l1i"]["misses"] > 0.9 * reserved["l1i"]["misses"]


def test_a_reshaped_trace_is_run_as_it_is_reshaped(cli: Cli, tmp_path: Path) -> None:
    kept = tmp_path / "anew.mmt"
    assert cli("trace", "reshape", RECORDED, str(kept), "--max-page-size", "16K").code == 0
    options = engine.Options(unmapped="stop", max_instructions=1_000_000)
    job = [engine.Job("zen3-5900x", "freebsd-reserv")]
    at_once = engine.Options(**{**vars(options), "reshape": {"image": {"max_page_size": "16K"}}})
    first, second = (
        engine.run(trace, job, asked).results[0].data for trace, asked in ((str(kept), options), (RECORDED, at_once))
    )
    assert first["counts"] == second["counts"]
    image = second["trace"]["reshaped"]["image"]
    assert (image["linker"], image["max_page_size"], image["left"]) == ("lld", "16K", [])
    assert len(image["files"]) == 10
    assert image["references_beside_segments"] == 0


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (["--max-page-size", "3K"], "3K"),
        (["--max-page-size", "1T"], "no room"),
        ([], "nothing is to be changed"),
    ],
)
def test_what_no_linker_does_is_refused(asked: list[str], answer: str, cli: Cli, tmp_path: Path) -> None:
    ran = cli("trace", "reshape", RECORDED, str(tmp_path / "x.mmt"), *asked)
    assert ran.code != 0
    assert answer in ran.err


def mapped(program: Path) -> list[str]:
    """A text trace of an ELF file as it is mapped, without its program headers, and one fetch from it."""
    segments = engine.elf_check(str(program), False)["files"][0]["segments"]
    lines = [
        f"mmap {0x400000 + (s['address'] & ~4095):#x} {(s['address'] & 4095) + s['file_bytes']:#x} "
        f"{s['rights'].replace('-', '')} file:{program}+{s['offset'] & ~4095:#x}"
        for s in segments
    ]
    code = next(s for s in segments if s["rights"] == "r-x")
    return [*lines, f"f {0x400000 + code['address']:#x}"]


def test_a_trace_without_program_headers_is_refused_until_they_are_added(cli: Cli, tmp_path: Path) -> None:
    program = Path("/bin/sh").resolve()
    lines = mapped(program)
    told, whole = tmp_path / "t.mmtx", tmp_path / "whole.mmtx"
    told.write_text("\n".join(lines) + "\n", encoding="utf-8")
    asked = ("--max-page-size", "2M")
    refused = cli("trace", "reshape", str(told), str(tmp_path / "x.mmtx"), *asked)
    assert "--program-headers" in refused.err
    assert cli("trace", "convert", "--program-headers", str(told), str(whole)).code == 0
    assert f"image {program}" in whole.read_text(encoding="utf-8")
    assert cli("trace", "reshape", str(whole), str(tmp_path / "y.mmtx"), *asked).code == 0
    other = lines[0].replace(" r ", " rx ").replace("+0x0", "+0x7000")
    told.write_text(other + "\n", encoding="utf-8")
    wrong = cli("trace", "convert", "--program-headers", str(told), str(tmp_path / "z.mmtx"))
    assert "another file than was recorded" in wrong.err


def test_a_recipe_adds_program_headers_to_a_recorded_system(cli: Cli, tmp_path: Path) -> None:
    said: list[str] = []
    lines = mapped(Path("/bin/sh").resolve())
    trace = tmp_path / "recording.mmtx"
    trace.write_text("\n".join(lines) + "\n", encoding="utf-8")
    whole = recipes.with_headers(trace, said.append)
    assert cli("trace", "reshape", str(whole), str(tmp_path / "y.mmtx"), "--max-page-size", "2M").code == 0
    assert (said, trace.exists()) == ([], False)
    trace.write_text(lines[0].replace(" r ", " rx ").replace("+0x0", "+0x7000") + "\n", encoding="utf-8")
    assert recipes.with_headers(trace, said.append) == trace
    assert "another file than was recorded" in said[0]


def test_a_file_of_a_recorded_system_that_is_gone_is_told(tmp_path: Path) -> None:
    """The other files have their program headers."""
    said: list[str] = []
    trace = tmp_path / "recording.mmtx"
    program = Path("/bin/sh").resolve()
    lines = "\n".join(mapped(program)) + "\n"
    trace.write_text(lines.replace(str(program), str(tmp_path / "gone")), encoding="utf-8")
    assert recipes.with_headers(trace, said.append) != trace
    assert said == [f"{tmp_path}/gone: no ELF file is there now; its program headers stay unknown"]


def test_a_disk_without_room_for_program_headers_keeps_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_args: object, **_more: object) -> Json:
        raise Failure("No space left on device")

    monkeypatch.setattr(engine, "trace_copy", full)
    said: list[str] = []
    trace = tmp_path / "recording.mmt"
    trace.write_bytes(b"recorded")
    assert recipes.with_headers(trace, said.append) == trace
    assert trace.read_bytes() == b"recorded"
    assert said == ["program headers are left out: No space left on device"]


def test_what_was_changed_is_told(cli: Cli, tmp_path: Path) -> None:
    changed = "linked anew by lld with maxpagesize 2M"
    asked = ("--max-page-size", "2M", "--max-instructions", "10k")
    ran = cli("run", "zen3-5900x", "--trace", RECORDED, *asked)
    assert changed in ran.out.splitlines()[0]
    study = ("study", "--machines", "zen3-5900x", "--policies", "linux-4k", "--out", str(tmp_path), *asked, RECORDED)
    assert changed in cli(*study).out
    assert changed in next(tmp_path.rglob("*.html")).read_text(encoding="utf-8")
