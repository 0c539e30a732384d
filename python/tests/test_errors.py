"""Every mistake has its exit code and says what, where and what to do; none shows a traceback."""

from pathlib import Path

import pytest
from conftest import CHECKOUT, SMALL, Cli

MACHINE = "skylake-e3-1240v5"
# A file, but neither a trace nor a program nor TOML.
README = str(CHECKOUT / "README.md")

MISTAKES = [
    (["run", "skylake", "--trace", SMALL], ["skylake", "known:", MACHINE]),
    (["run", "skylake-e3-1240v6", "--trace", SMALL], [f"did you mean '{MACHINE}'"]),
    (["run", MACHINE, "--trace", SMALL, "--policy", "linux-thq"], ["linux-thq", "linux-thp"]),
    (["run", MACHINE, "--trace", SMALL, "--set", "core.base_cpy=2"], ["base_cpy", "did you mean `base_cpi`"]),
    (["run", MACHINE, "--trace", SMALL, "--set", "tlb.STBL.entries=2"], ["STBL", "did you mean 'STLB'"]),
    (["run", MACHINE, "--trace", SMALL, "--set", "nonsense"], ["nonsense", "key=value"]),
    (["run", MACHINE, "--trace", SMALL, "--set", "tlb.STLB.ways=7"], ["STLB", "7"]),
    (["run", MACHINE, "--trace", "absent.mmt"], ["absent.mmt: no such trace", "hint:"]),
    (["run", MACHINE, "--trace", "gen:gupz"], ["gupz", "gups"]),
    (["run", MACHINE, "--trace", "gen:gups?footprnt=1M"], ["footprnt", "footprint"]),
    (["run", MACHINE, "--trace", SMALL, "--max-instructions", "many"], ["'many' is not a count"]),
    (["run", "./absent.toml", "--trace", SMALL], ["absent.toml"]),
    (["run", MACHINE], ["--trace"]),
    (["rum"], ["Did you mean 'run'", "hint:"]),
    (["run", MACHINE, "--tracee", SMALL], ["--tracee", "--trace"]),
    (["study"], ["nothing to study", "hint: mmulab study TRACE"]),
    (["study", SMALL, "--", "true"], ["not both"]),
    (["study", SMALL, "--machines", f"{MACHINE},{MACHINE}"], ["named twice"]),
    (["study", SMALL, "--machines", "pdp11"], ["pdp11"]),
    (["compare", "absent.json", "other.json"], ["absent.json"]),
    (["trace", "slice", SMALL, "out.mmtx", "--start", "10", "--end", "5"], ["not after"]),
    (["trace", "convert", SMALL, "/nowhere/out.mmtx"], ["/nowhere/out.mmtx"]),
    (["machines", "show", "skylake-e3-1240v6"], [MACHINE]),
    (["run", MACHINE, "--trace", "."], [".", "directory"]),
    (["run", MACHINE, "--trace", README], ["README.md"]),
    (["run", MACHINE, "--trace", "mix:two-gupz"], ["two-gupz", "two-gups"]),
    (["run", MACHINE, "--trace", SMALL, "--base-cpi", "-1"], ["--base-cpi", "-1"]),
    (["run", MACHINE, "--trace", SMALL, "--savable", "half"], ["--savable", "half"]),
    (["run", MACHINE, "--trace", SMALL, "--error", "1%"], ["--timing"]),
    (["run", "sandybridge", "--trace", SMALL, "--timing"], ["core.timing"]),
    (["run", MACHINE, "--trace", SMALL, "--hints", "absent.hints"], ["absent.hints"]),
    (["run", MACHINE, "--trace", SMALL, "--threads", "0"], ["--threads", "0"]),
    (["run", MACHINE, "--trace", SMALL, "--heap", "ptmalloc"], ["ptmalloc"]),
    (["study", SMALL, "--policies", "linux-4k,linux-4k"], ["policy named twice"]),
    (["study", SMALL, "--machines", ","], ["at least one name"]),
    (["study", SMALL, "--here", "absent.toml"], ["absent.toml"]),
    (["study", "--", "./absent"], ["./absent: no such program", "hint:"]),
    (["study", "--try", SMALL], ["--try times a program"]),
    (["explain", MACHINE, "--trace", "absent.mmt"], ["absent.mmt: no such trace"]),
    (["sweep", "absent.toml"], ["absent.toml"]),
    (["sweep", README], ["README.md"]),
    (["sweep", "absent.toml", "--tls-ca", "ca.pem"], ["give all four"]),
    (["sweep", "absent.toml", "--scheduler", "tcp://127.0.0.1:1", "--workers", "2"], ["give one of them"]),
    (["elf", "check", "absent"], ["absent"]),
    (["elf", "check", README], ["README.md", "ELF"]),
    (["elf", "pad", README], ["README.md", "ELF"]),
    (["elf", "layout", "--part", "nonsense"], ["nonsense"]),
    (["elf", "layout"], ["hint:"]),
    (["leshy", "absent.mmt"], ["absent.mmt: no such trace"]),
    (["leshy", SMALL, "--sizes", "3K"], ["3K"]),
    (["leshy", SMALL, "--method", "luck"], ["luck", "artifact"]),
    (["try"], ["no program", "hint: mmulab try"]),
    (["try", "--", "./absent"], ["./absent: no such program"]),
    (["try", "--settings", "4k", "--", "true"], ["at least two", "hint:"]),
    (["try", "--settings", "4k,9k", "--", "true"], ["'9k' is not a setting", "thp"]),
    (["try", "--until", "200%", "--", "true"], ["200%"]),
    (["try", "--port", "80", "--", "true"], ["--bench"]),
    (["try", "--time", "took", "--", "true"], ["one group"]),
    (["try", "--machine", MACHINE, "--", "true"], ["--mosaics"]),
    (["probe", "--from", "absent.json"], ["absent.json", "probe.json"]),
    (["probe", "--from", README], ["README.md: not JSON"]),
    (["probe", "--repeats", "0"], ["--repeats", "0"]),
    (["trace", "info", "absent.mmt"], ["absent.mmt: no such trace"]),
    (["trace", "info", README], ["README.md"]),
    (["trace", "convert", SMALL, "out.mmt", "--to", "valgrind"], ["valgrind", "champsim"]),
    (["record"], ["no program", "hint:"]),
    (["record", "--env", "X", "--", "true"], ["NAME=VALUE"]),
    (["record", "--memory", "1G", "--", "true"], ["add --system"]),
    (["record", "-o", "nowhere/x.mmt", "--", "true"], ["nowhere: no such directory"]),
    (["reproduce", "figure-99"], ["figure-99"]),
    (["reproduce", "leshy", "--threads", "0"], ["--threads", "0"]),
    (["results", "query", "absent", "select 1"], ["absent"]),
    (["workloads", "show", "memcachd"], ["memcachd", "memcached"]),
]


@pytest.mark.parametrize(("args", "said"), MISTAKES, ids=lambda v: " ".join(v) if isinstance(v, list) else None)
def test_a_mistake_exits_with_2_and_says_what_to_do(cli: Cli, args: list[str], said: list[str]) -> None:
    """Nothing is on stdout, and the first line is the error."""
    ran = cli(*args)
    assert ran.code == 2, ran.err
    assert ran.out == ""
    assert ran.err.startswith("error: ")
    for words in said:
        assert words in ran.err


def test_an_unknown_key_in_a_machine_file_has_its_line(cli: Cli, tmp_path: Path) -> None:
    """A file of the user's own: the place is told as editors understand it."""
    text = cli("machines", "show", MACHINE).out.replace("frequency_mhz", "frequency_mhy")
    (tmp_path / "mine.toml").write_text(text)
    line = next(i for i, row in enumerate(text.splitlines(), 1) if "frequency_mhy" in row)
    ran = cli("run", "./mine.toml", "--trace", SMALL)
    assert ran.code == 2
    assert f"mine.toml:{line}:" in ran.err
    assert "did you mean `frequency_mhz`" in ran.err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("foreign.gif", b"GIF89a" + bytes(range(256)) * 8),
        ("foreign.mmtx", b"GIF89a" + bytes(range(256)) * 8),
        ("text.mmtx", b"w 0x1000\nwhat is this\n"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(cli: Cli, tmp_path: Path, name: str, content: bytes) -> None:
    """With its name; as a mistake, or as a marked partial result where it began well."""
    (tmp_path / name).write_bytes(content)
    ran = cli("run", MACHINE, "--trace", name)
    assert ran.code in (1, 2)
    assert name in ran.err


def test_a_cut_trace_gives_a_marked_partial_result(cli: Cli, tmp_path: Path) -> None:
    """What came before the damage counts; the exit code says that it is not all, the error where it is."""
    assert cli("trace", "convert", SMALL, "whole.mmtx").code == 0
    whole = (tmp_path / "whole.mmtx").read_text().splitlines()
    (tmp_path / "cut.mmtx").write_text("\n".join(whole[:-10]) + "\nr 0x")
    ran = cli("run", MACHINE, "--trace", "cut.mmtx", "--json")
    assert ran.code == 1, ran.err
    result = ran.json()
    assert result["complete"] is False
    assert result["ended"]["reason"] == "trace-damaged"
    assert result["counts"]["references"] > 1000
    assert f"line {len(whole) - 9}" in ran.err
    assert cli("trace", "verify", "cut.mmtx").code == 1
    assert cli("trace", "verify", "whole.mmtx").code == 0


def test_results_that_cannot_be_written_are_a_failure(cli: Cli) -> None:
    """Exit code 1, with the path."""
    ran = cli("run", MACHINE, "--trace", SMALL, "--out", "/proc/nowhere")
    assert ran.code == 1
    assert "/proc/nowhere" in ran.err


def test_a_defect_is_one_line_and_how_to_see_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """No traceback reaches a user who did not ask for it."""
    from mmulab import engine
    from mmulab.cli.app import invoke

    def broken() -> None:
        raise KeyError("x")

    monkeypatch.setattr(engine, "machines", broken)
    monkeypatch.delenv("MMULAB_TRACEBACK", raising=False)
    assert invoke(["machines", "list"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "internal: KeyError" in said.err
    assert "MMULAB_TRACEBACK=1" in said.err
    assert "Traceback" not in said.err
    monkeypatch.setenv("MMULAB_TRACEBACK", "1")
    assert invoke(["machines", "list"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        (("memory.size=32M", "virtual.memory.size=128M"), ["the host is out of memory", "(memory.size)"]),
        (("memory.size=256M", "virtual.memory.size=32M"), ["virtual machine 0 is out", "(virtual.memory.size)"]),
        (("memory.size=32M", "virtual.memory.size=1T", "virtual.mode=shadow", "virtual.cache=[]"), ["the host is out"]),
    ],
)
def test_memory_that_runs_out_is_said_whose(cli: Cli, sets: tuple[str, ...], said: list[str]) -> None:
    """A guest may believe in more than its host has, and runs as long as there is some."""
    flags = [part for one in sets for part in ("--set", one)]
    ran = cli("run", "compendia-nested", "--trace", "gen:gups?footprint=64M&updates=40000", *flags)
    assert ran.code == 1
    assert "PARTIAL" in ran.out
    for words in said:
        assert words in ran.err
