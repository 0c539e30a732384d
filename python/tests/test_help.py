"""Help pages and words of the command line stay as they are until someone means to change them."""

from pathlib import Path

import pytest
from conftest import Cli

PAGES = ["", "study", "compare", "record", "trace", "run", "explain", "machines", "policies", "generators", "elf"]
PAGES += [
    "completion",
    "leshy",
    "microbench",
    "contiguity",
    "pages",
    "sweep",
    "results",
    "workloads",
    "reproduce",
    "probe",
    "try",
    "doctor",
    "reorder",
]
SNAPSHOTS = Path(__file__).parent / "snapshots"


@pytest.mark.parametrize("page", PAGES)
def test_help_is_as_it_was(cli: Cli, page: str) -> None:
    """To accept a change, delete the snapshot and run the tests again."""
    ran = cli(*page.split(), "--help")
    assert ran.code == 0
    assert ran.err == ""
    text = "\n".join(line.rstrip() for line in ran.out.splitlines()) + "\n"
    snapshot = SNAPSHOTS / f"help-{page or 'mmulab'}.txt"
    if not snapshot.exists():
        snapshot.parent.mkdir(exist_ok=True)
        snapshot.write_text(text, encoding="utf-8")
        pytest.fail(f"{snapshot.name} did not exist: wrote it")
    assert text == snapshot.read_text(encoding="utf-8")


def test_only_the_promised_commands_are_listed(cli: Cli) -> None:
    """No command that is not built yet, and none hidden but `docs`."""
    from mmulab.cli.app import app

    assert {n for n, c in app.loaded().items() if not c.hidden} == {p for p in PAGES if p}
    assert {n for n, c in app.loaded().items() if c.hidden} == {"docs"}


def test_no_arguments_shows_help_and_is_a_mistake(cli: Cli) -> None:
    """The exit code tells scripts that nothing was done."""
    ran = cli()
    assert ran.code == 2
    assert "Usage: mmulab" in ran.out + ran.err


def test_version(cli: Cli) -> None:
    """On stdout, as data."""
    from mmulab import engine

    assert cli("--version").out.strip().endswith(engine.build())
