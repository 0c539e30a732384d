"""Executes the notebooks of docs/notebooks and keeps their outputs: `make notebooks`.

A notebook shows what its cells printed, so that one can read it without running it. The tests execute each one again
and compare. Cells tagged `varies` have outputs that depend on the computer: these are not compared.
"""

import sys
import tempfile
from pathlib import Path

import nbformat
from jupyter_client import AsyncKernelManager
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).resolve().parents[1] / "docs" / "notebooks"
# Seconds that one cell may take, on a slow and busy computer.
PATIENCE = 300
VARIES = "varies"
# Outputs as texts: pictures depend on the version of matplotlib.
TEXTS = ("text/plain",)


def executed(path: Path, directory: Path) -> nbformat.NotebookNode:
    """The notebook with the outputs of a new kernel that works in `directory`. Raises for a cell that fails."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory(prefix="mmulab-kernel-") as sockets:
        # In the file system, where no other computer and no other user reaches them.
        kernel = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=str(Path(sockets) / "at"))
        place = {"metadata": {"path": str(directory)}}
        NotebookClient(notebook, km=kernel, timeout=PATIENCE, resources=place, coalesce_streams=True).execute()
    # When each cell ran, and with which Python, would change with each execution.
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    for cell in notebook.cells:
        cell.metadata = {key: value for key, value in cell.metadata.items() if key == "tags"}
    return notebook


def printed(cell: nbformat.NotebookNode) -> str:
    """What a cell printed and showed, as one text."""
    parts = []
    for output in cell.get("outputs", []):
        if output.output_type == "stream":
            parts.append(output.text)
        elif "data" in output:
            parts += [output.data[kind] + "\n" for kind in TEXTS if kind in output.data and not pictured(output)]
    return "".join(parts)


def pictured(output: nbformat.NotebookNode) -> bool:
    """Whether an output is a picture, whose text only names a Python object."""
    return "image/svg+xml" in output.get("data", {})


def varies(cell: nbformat.NotebookNode) -> bool:
    """Whether the outputs of a cell depend on the computer."""
    return VARIES in cell.metadata.get("tags", [])


def main(names: list[str]) -> None:
    """Executes the notebooks with these names, or all."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        if not names or path.stem in names:
            with tempfile.TemporaryDirectory(prefix="mmulab-notebook-") as directory:
                nbformat.write(executed(path, Path(directory)), path)
            print(path.name)


if __name__ == "__main__":
    main(sys.argv[1:])
