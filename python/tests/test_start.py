"""What starting the command line imports: only what the command needs, so that `mmulab --version` is quick."""

import subprocess
import sys

import pytest

from mmulab.cli.app import COMMANDS, app
from mmulab.version import build

# Slow to import, and of use to some commands only.
HEAVY = (
    "numpy",
    "matplotlib",
    "elftools",
    "jinja2",
    "scipy",
    "sklearn",
    "rich.progress",
    "distributed",
    "pyarrow",
    "duckdb",
)


def imported(*argv: str) -> set[str]:
    """The heavy modules that a command had imported when it ended."""
    code = (
        "import sys\n"
        "from mmulab.cli.app import invoke\n"
        f"code = invoke({list(argv)!r})\n"
        f"print(code, *[m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    code, *modules = ran.stderr.split()
    assert code == "0", ran.stdout + ran.stderr
    return set(modules)


def test_the_version_is_said_without_what_other_commands_need() -> None:
    assert imported("--version") == set()


def test_the_version_alone_imports_no_command_line() -> None:
    code = (
        "import sys\n"
        "from mmulab.cli import main\n"
        "sys.argv = ['mmulab', '--version']\n"
        "try:\n    main()\n"
        "finally:\n    print(*{'click', 'rich', 'mmulab.engine'} & set(sys.modules), file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == f"mmulab, version {build()}\n"
    assert ran.stderr.split() == []


def test_listing_machines_needs_no_numbers_library() -> None:
    assert not imported("machines") & {"numpy", "matplotlib", "scipy", "sklearn"}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_name_leads_to_its_command(name: str) -> None:
    assert app.loaded()[name].name == name
