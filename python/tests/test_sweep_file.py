"""Sweep files: what is wrong in one is refused before anything runs, with its place and a remedy."""

from pathlib import Path

import pytest
from conftest import Cli
from sweeps import MACHINE, TRACES, written

AXES = f'[axes]\ntrace = "{TRACES[0]}"\nmachine = "{MACHINE}"\n'
ENTRIES = 'entries = { key = "tlb.STLB.entries", values = [768, 1536] }\n'
DRAWN = 'hit = { key = "tlb.STLB.hit_cycles", from = 5, to = 12 }\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        # Of the file.
        ("axes = [", "sweep.toml: not TOML"),
        (f"{AXES}{ENTRIES}[axis]\n", "sweep.toml: axis: a sweep file has no such key hint: did you mean axes?"),
        (f'name = "../a"\n{AXES}', "sweep.toml: name: '../a' cannot be a part of a directory's name"),
        ('[axes]\ntrace = "gen:gups"\n', "sweep.toml: axes: no axis machine"),
        (f'[axes]\nmachine = "{MACHINE}"\n', "sweep.toml: axes: no axis trace"),
        # Of axes.
        (f"{AXES}entries = [768]\n", "sweep.toml: axes.entries: no key is named"),
        (f'{AXES}"tlb.STLB.entries" = [768]\n', "axes.tlb.STLB.entries: an axis cannot have this name"),
        (f'{AXES}walks = {{ key = "tlb.STLB.entries", values = [768] }}\n', "axes.walks: a column of the results"),
        (f'{AXES}Trace = {{ key = "tlb.STLB.entries", values = [768] }}\n', "but for capital letters"),
        (f'{AXES}entries = {{ key = "tlb.STLB.entries", values = [] }}\n', "axes.entries.values: the list is empty"),
        (f'{AXES}entries = {{ key = "tlb.STLB.entries", values = [8, 8] }}\n', "8 is listed twice"),
        (f'{AXES}entries = {{ key = "tlb.STLB.entries", values = [8, "8"] }}\n', "values are of several kinds"),
        (f'{AXES}entries = {{ key = "tlb.STLB.entries", values = [8], pick = [8] }}\n', "values and pick"),
        (f'{AXES}entries = {{ key = "tlb.STLB.entries", value = [8] }}\n', "did you mean values?"),
        (f'{AXES}entries = {{ key = "tlb.STLB.entries", values = [8], to = 9 }}\n', "entries.to: belongs to a range"),
        (f'{AXES}hit = {{ key = "tlb.STLB.hit_cycles", from = 9, to = 5 }}\n', "from 9 is not below to 5"),
        (f'{AXES}hit = {{ key = "tlb.STLB.hit_cycles", from = 5 }}\n', "axes.hit.to: None is not a number"),
        (f'{AXES}hit = {{ key = "tlb.STLB.hit_cycles", from = 5, to = 9, step = 5 }}\n', "at most 4"),
        (
            f'{AXES}hit = {{ key = "tlb.STLB.hit_cycles", from = 0, to = 9, scale = "log" }}\n',
            "log needs a range above 0",
        ),
        (f'{AXES}{ENTRIES}n = {{ key = "tlb.STLB.entries", values = [8] }}\n', "axes.n: axes.entries has a value for"),
        (f'{AXES}{ENTRIES}[set]\n"tlb.STLB.entries" = 8\n', "axes.entries: set has a value for tlb.STLB.entries, too"),
        (f'{AXES}seed = 1\nn = {{ key = "memory.seed", values = [8] }}\n', "axes.seed has a value for memory.seed"),
        (f"{AXES}seed = [9223372036854775808]\n", "9223372036854775808 is too large"),
        (f"{AXES}seed = [-1]\n", "axes.seed: [-1] are not seeds"),
        # Of samples.
        (f"{AXES}{DRAWN}", "an axis with from or pick is drawn, but nothing says how"),
        (f"{AXES}{ENTRIES}[sample]\npoints = 8\n", "sample: no axis is drawn"),
        (f'{AXES}{DRAWN}[sample]\npoints = 8\nmethod = "latin"\n', "sample.method: 'latin': give random or sobol"),
        (f"{AXES}{DRAWN}[sample]\npoints = 0\n", "sample.points: 0: give 1 to"),
        # Of options and assignments.
        (f"{AXES}[options]\nmax_instruction = 5\n", "options: max_instruction: a run has no such key"),
        (f'{AXES}[options]\nmax_instructions = "many"\n', "options.max_instructions: 'many': give a number from 0"),
        (f"{AXES}[options]\nbase_cpi = 0\n", "options.base_cpi: 0: give a number from 0.01"),
        (f"{AXES}[options]\ntiming = 1\n", "options.timing: 1: give true or false"),
        (f'{AXES}[options]\nprofile = "yes"\n', "options.profile: 'yes': give true or false"),
        (f'{AXES}[options]\nunmapped = "no"\n', "options.unmapped: 'no': give fault, map or stop"),
        (f'{AXES}[set]\n"tlb.STLB.hit" = 5\n', "sweep.toml: set: tlb.STLB.hit"),
        # Of what the engine does not know.
        (f'{AXES}n = {{ key = "tlb.STLB.entrie", values = [768] }}\n', "axes.n"),
        (f'{AXES}n = {{ key = "tlb.STLB.entrie", values = [768] }}\n', "did you mean `entries`?"),
        (f'{AXES}n = {{ key = "tlb.XTLB.entries", values = [768] }}\n', "no entry named 'XTLB'; did you mean 'STLB'?"),
        (f'{AXES}n = {{ key = "tlb.STLB.entries", values = [768, 7] }}\n', "12 ways do not divide 7 entries"),
        (f'{AXES}n = {{ key = "tlb.STLB.entries", values = [768, 7] }}\n', f"in the job trace={TRACES[0]}"),
        (f'{AXES}policy = ["linux-4k", "linux-5k"]\n', "sweep.toml: axes.policy: no policy named 'linux-5k'"),
        ('[axes]\ntrace = "gen:gups"\nmachine = "skylak"\n', "sweep.toml: axes.machine: no machine named 'skylak'"),
        (f'[axes]\ntrace = "no.mmt"\nmachine = "{MACHINE}"\n', "sweep.toml: axes.trace: no.mmt: no such trace"),
        (f'[axes]\ntrace = "gen:gup"\nmachine = "{MACHINE}"\n', "sweep.toml: axes.trace:"),
        (f'[axes]\ntrace = "sweep.toml"\nmachine = "{MACHINE}"\n', "sweep.toml: axes.trace:"),
        # Of constraints.
        (f'constraints = ["entries > 9999"]\n{AXES}{ENTRIES}', "constraint 1: 'entries > 9999' is met by 0 of 2"),
        (
            f'constraints = ["entries > 1000", "entries < 1000"]\n{AXES}{ENTRIES}',
            "no combination meets all constraints together sweep.toml: constraint 1: 'entries > 1000' is met by 1 of 2",
        ),
        (
            f'constraints = ["entrys > 9"]\n{AXES}{ENTRIES}',
            "constraint 1: no axis is named 'entrys' hint: did you mean",
        ),
        (f'constraints = ["entries >"]\n{AXES}{ENTRIES}', "constraint 1: 'entries >' is not an expression"),
        (f'constraints = ["entries"]\n{AXES}{ENTRIES}', "'entries' is 768 and neither true nor false"),
        (f'constraints = "entries > 1"\n{AXES}{ENTRIES}', "constraints: give a list of texts"),
    ],
)
def test_a_mistake_is_refused_with_its_place(cli: Cli, tmp_path: Path, text: str, said: str) -> None:
    written(tmp_path, text)
    refused = cli("sweep", "sweep.toml")
    assert refused.code == 2, refused.out + refused.err
    assert said in " ".join(refused.err.split())
    assert "hint:" in refused.err or ": give " in refused.err
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.toml"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--scheduler", "tcp://10.1.2.3:8786"), "the connection would not be encrypted"),
        (("--scheduler", "cluster.example:8786"), "the connection would not be encrypted"),
        (("--scheduler", "ucx://127.0.0.1:8786"), "the connection would not be encrypted"),
        (("--scheduler", "tls://10.1.2.3:8786"), "TLS needs certificates"),
        (("--scheduler", "tls://10.1.2.3:8786", "--tls-ca", "sweep.toml"), "TLS needs --scheduler, --tls-ca"),
        (("--tls-ca", "a", "--tls-cert", "a", "--tls-key", "a"), "TLS needs --scheduler"),
        (("--scheduler", "tls://h:1", "--tls-ca", "a", "--tls-cert", "a", "--tls-key", "a"), "a: no such file"),
        (("--scheduler", "tcp://127.0.0.1:1", "--workers", "2"), "--scheduler has its own"),
        (("--scheduler", "tcp://127.0.0.1:1", "--dry-run"), "foresees the time on this computer"),
        (("--workers", "0"), "0 is not in the range"),
    ],
)
def test_an_open_door_is_refused(cli: Cli, tmp_path: Path, args: tuple[str, ...], said: str) -> None:
    """As are options that do not go together."""
    written(tmp_path, AXES)
    refused = cli("sweep", "sweep.toml", *args)
    assert refused.code == 2, refused.out + refused.err
    assert said in " ".join(refused.err.split())


def test_a_key_that_only_some_machines_have_can_be_swept_on_these(cli: Cli, tmp_path: Path) -> None:
    """The refusal names a constraint as the remedy, and a constraint helps."""
    axes = AXES.replace(f'"{MACHINE}"', f'["{MACHINE}", "zen3-5900x"]') + ENTRIES
    written(tmp_path, axes)
    refused = cli("sweep", "sweep.toml", "--dry-run")
    assert refused.code == 2
    assert "zen3-5900x" in refused.err
    assert "add a constraint" in refused.err
    written(tmp_path, f"constraints = [\"machine == '{MACHINE}'\"]\n{axes}")
    assert cli("sweep", "sweep.toml", "--dry-run").code == 0
