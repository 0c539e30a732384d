"""Escape sequences in names reach neither terminals nor files that people read: CHANGELOG number 20."""

import io
import json
import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import Cli

from mmulab import paths
from mmulab.visible import VisibleConsole, visible, visible_json

MACHINE = "skylake-e3-1240v5"
# A colour, a title of the window, a sequence of eight bits, a bell, a carriage return, and a change of direction.
EVIL = "\x1b[31m\x1b]0;owned\x07\x9b2J\r\x7f\u202e"
ESCAPED = "".join(f"%{byte:02x}" for byte in EVIL.encode())
LINES = f"""\
#: program /bin/{ESCAPED}prog
#: arg --name={ESCAPED}
mmap 0x400000 1M rx file:/bin/{ESCAPED}lib+0
mmap 0x800000 1M rw anon label={ESCAPED}heap
"""


def obeyed(text: str) -> list[str]:
    """What a terminal would do something about, other than to begin a new line."""
    return [ascii(c) for c in text if visible(c) != c]


@pytest.fixture
def trace(tmp_path: Path) -> str:
    references = [f"f {0x400000 + i * 4096:#x} x4\nw {0x800000 + i * 4096:#x}\n" for i in range(200)]
    after = f"lost {ESCAPED}what\nexec /bin/{ESCAPED}next\n"
    (tmp_path / "a.mmtx").write_text(LINES + "".join(references) + after)
    return "a.mmtx"


@pytest.mark.parametrize(
    "args",
    [
        ("trace", "info", "{}"),
        ("trace", "info", "{}", "--json"),
        ("trace", "head", "{}"),
        ("trace", "verify", "{}"),
        ("run", MACHINE, "--trace", "{}"),
        ("run", MACHINE, "--trace", "{}", "--json", "--profile", "--touched"),
        ("run", MACHINE, "--trace", "{}", "--out", "out"),
        ("explain", MACHINE, "--trace", "{}"),
        ("explain", MACHINE, "--trace", "{}", "--tables"),
        ("study", "{}", "--machines", MACHINE, "--out", "out"),
        ("study", "{}", "--machines", MACHINE, "--out", "out", "--json"),
        ("contiguity", MACHINE, "--trace", "{}"),
        ("trace", "convert", "{}", "b.mmtx"),
        ("reproduce", "pte-coalescing-table", "--trace", "{}", "--out", "out"),
    ],
)
def test_no_command_lets_a_name_through(cli: Cli, trace: str, tmp_path: Path, args: tuple[str, ...]) -> None:
    """Of a program, its arguments, a file, a mapping, and what was lost: on stdout, stderr and in what is written."""
    ran = cli(*(arg.format(trace) for arg in args))
    assert ran.code in (0, 1), ran.err
    assert obeyed(ran.out) == []
    assert obeyed(ran.err) == []
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.suffix != ".mmt":
            assert obeyed(path.read_text(encoding="utf-8")) == [], path


def test_names_in_errors_are_visible(cli: Cli) -> None:
    """What was typed, too: it may have been pasted."""
    for args in (
        ("run", MACHINE, "--trace", f"{EVIL}.mmt"),
        ("run", f"{EVIL}.toml", "--trace", "gen:gups"),
        ("run", MACHINE, "--trace", f"gen:{EVIL}"),
        ("run", MACHINE, "--trace", "gen:gups", "--set", f"{EVIL}=1"),
        ("record", "--", f"./{EVIL}"),
        ("compare", f"{EVIL}.json"),
        (EVIL,),
    ):
        refused = cli(*args)
        assert refused.code == 2
        assert obeyed(refused.out + refused.err) == []


def test_programs_without_python_show_the_same() -> None:
    """`mmulab-kernel` prints what it was given, of all characters that an argument can hold, as Python would."""
    given = "".join(map(chr, (*range(1, 0x3000), *range(0xFF00, 0x11000)))) + EVIL
    ran = subprocess.run([paths.kernel(), given], capture_output=True, check=False)
    shown = ran.stderr.decode()
    assert ran.returncode == 2
    assert obeyed(shown) == []
    assert visible(given) in shown
    odd = subprocess.run([paths.kernel(), b"\xff\x1b"], capture_output=True, check=False)
    assert odd.returncode == 2
    assert "gen:\ufffd\u241b" in odd.stderr.decode()


def test_the_recorder_within_a_program_shows_them_too(tmp_path: Path) -> None:
    """What the plugin says before it is connected to a launcher: the path it was given."""
    qemu = shutil.which(f"qemu-{platform.machine()}")
    if qemu is None:
        pytest.skip(f"needs qemu-{platform.machine()} (package qemu-user)")
    arena = f"arena={tmp_path}/{EVIL}arena".replace(",", ",,")
    plugin = f"{paths.plugin()},{arena},image=1,pid=1,tid=1"
    ran = subprocess.run([qemu, "-plugin", plugin, "/bin/true"], capture_output=True, check=False)
    assert ran.returncode != 0
    said = next(line for line in ran.stderr.decode().splitlines() if "the program cannot be recorded" in line)
    assert visible(EVIL) in said
    assert obeyed(said) == []


def test_json_keeps_names_as_they_are(cli: Cli, trace: str) -> None:
    """Escaped: programs read the same text."""
    ran = cli("run", MACHINE, "--trace", trace, "--json")
    data = json.loads(ran.out)
    assert data["trace"]["program"] == f"/bin/{EVIL}prog"
    assert data["trace"]["args"] == [f"--name={EVIL}"]
    assert any(EVIL in region["name"] for region in data["regions"])


def test_what_is_shown_in_their_place() -> None:
    """A picture where Unicode has one; blanks, ends of lines and all languages stay."""
    assert visible("a\x1b[1m\x07b\x7f\x9b\u202e\ud800") == "a␛[1m␇b␡���"
    assert visible("naïve 名前\t1 %\n2") == "naïve 名前\t1 %\n2"
    assert visible_json('"\x9b\x7f"') == '"\\u009b\\u007f"'


def test_a_console_keeps_its_own_colours() -> None:
    """And takes them from no text, with or without markup."""
    shown = io.StringIO()
    console = VisibleConsole(file=shown, force_terminal=True, color_system="standard", width=80)
    console.print("[bold]mine[/] \x1b[31mtheirs")
    console.print("\x1b[31mtheirs", markup=False, soft_wrap=True)
    text = shown.getvalue()
    assert text.count("\x1b[31m") == 0
    assert "\x1b[1m" in text
    assert text.count("␛[31m") + text.count("␛\x1b") == 2
