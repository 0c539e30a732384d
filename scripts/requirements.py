"""Prints what the package and its development need, as pyproject.toml says it, for pip."""

import re
from pathlib import Path

text = Path(__file__).parents[1].joinpath("pyproject.toml").read_text(encoding="utf-8")
# Python 3.10 has no TOML reader; these two lists are plain enough for an expression.
project = re.search(r"^dependencies = \[(.*?)^\]", text, re.DOTALL | re.MULTILINE)
development = re.search(r"^dev = \[(.*?)\]", text, re.DOTALL | re.MULTILINE)
if project is None or development is None:
    raise SystemExit("pyproject.toml: no dependencies or no dev extra")
print(*re.findall(r'"([^"]+)"', project[1] + development[1]))
