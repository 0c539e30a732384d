"""The directory that a study is written to: a free one, or the given one, whose earlier study is not lost unasked."""

import json
import re
from pathlib import Path
from typing import Any

from mmulab import Failure, UserError

# The file that makes a directory a study, and its keys that are known only after the run.
DESCRIPTION = "study.json"
# The recording that a study of a program makes.
RECORDING = "trace.mmt"
_KNOWN_AFTERWARDS = ("version", "trace_identity")


def choose(out: Path | None, name: str) -> Path:
    """The given directory, or the first free one of study-NAME, study-NAME-2, ...; it is made."""
    if out is None:
        base = re.sub(r"[^A-Za-z0-9._+-]+", "-", f"study-{name}").strip("-")
        numbered = (Path(base if i == 1 else f"{base}-{i}") for i in range(1, 1 << 20))
        out = next(path for path in numbered if not path.exists())
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"{out}: {error.strerror}\nhint: choose another directory with --out") from None
    return out


def refuse_loss(out: Path | None, planned: dict[str, Any], replace: bool) -> bool:
    """Refuses to write a study where one of another description is; whether one is there that will be replaced.

    `planned` is what study.json will say, as far as known. A study that records a program has no trace in it yet: what
    it will record is not what was recorded before.
    """
    if out is None:
        return False
    recording = out / RECORDING
    if not planned["trace"] and recording.exists() and not replace:
        raise UserError(
            f"{out}: holds a recording, {RECORDING}, which this study would write over\n"
            f"hint: study it with `mmulab study {recording}`, choose another directory with --out, or add --replace"
        )
    if not (out / DESCRIPTION).exists():
        return False
    try:
        earlier = json.loads((out / DESCRIPTION).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        earlier = {}
    if not replace and _description(earlier) != _description(planned):
        raise UserError(
            f"{out}: holds a study of {_words(earlier)}, which is another one\n"
            "hint: choose another directory with --out, or add --replace to have this study in its place"
        )
    return True


def _description(study: dict[str, Any]) -> str:
    # As JSON, in which lists and tuples are alike.
    return json.dumps({key: value for key, value in study.items() if key not in _KNOWN_AFTERWARDS}, sort_keys=True)


def _words(study: dict[str, Any]) -> str:
    if "trace" not in study:
        return "unknown content"
    sets = "".join(f" with --set {assignment}" for assignment in study.get("set", []))
    machines, policies = len(study.get("machines", [])), len(study.get("policies", []))
    return f"{study['trace']} on {machines} machines under {policies} policies{sets}"
