"""A recipe as the rest of this package sees it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmulab import UserError, engine
from mmulab.units import parse_bytes, parse_count

Json = dict[str, Any]


def _count(text: str) -> int:
    count = parse_count(text)
    assert count is not None, "the reader of recipes takes nothing else"
    return count


@dataclass(frozen=True)
class Recipe:
    """What a `workloads/NAME.toml` says, checked, its parameters set."""

    json: Json
    path: Path
    sets: tuple[str, ...] = ()

    @staticmethod
    def load(name: str, sets: tuple[str, ...] = ()) -> "Recipe":
        """Reads it by its name or its file's path. Raises UserError."""
        found = engine.workload(name, sets)
        return Recipe(found["recipe"], Path(found["path"]), sets)

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.json["name"])

    @property
    def files(self) -> Path:
        """The directory of the files it brings; there need be none."""
        return self.path.parent / "files" / str(self.json.get("files") or self.name)

    @property
    def parameters(self) -> dict[str, str]:
        """Its parameters' values."""
        return {key: str(each["default"]) for key, each in self.json["parameter"].items()}

    @property
    def record(self) -> Json:
        """What is recorded. Raises UserError if it cannot be."""
        if self.json.get("refused"):
            raise UserError(f"{self.name} cannot be recorded: {self.json['refused']}")
        return dict(self.json["record"])

    @property
    def trace(self) -> str | None:
        """What stands for the program: a generator with its keys, or a mix; None if a program is recorded."""
        if self.mix:
            keys = "&".join(self.sets)
            return f"mix:{self.path}" + (f"?{keys}" if keys else "")
        generate = self.json.get("generate")
        return engine.fill_braces(str(generate["trace"]), self.parameters) if generate else None

    @property
    def mix(self) -> Json | None:
        """How other workloads take turns, if that is what it is."""
        return self.json.get("mix")

    def mixed(self) -> Json:
        """The mix with everything known: schedule and members. Raises UserError if a member is not there."""
        return dict(json.loads(engine.trace(str(self.trace)).removeprefix("mix:")))

    @property
    def _part(self) -> Json:
        if self.mix:
            return {
                "skip": "0",
                "instructions": engine.fill_braces(self.mix.get("instructions") or "1G", self.parameters),
            }
        return dict(self.json.get("generate") or self.record)

    @property
    def server(self) -> Json | None:
        """What drives the recorded program if it is a server."""
        return self.json.get("server")

    @property
    def skip(self) -> int:
        """Instructions left out before the recording."""
        return _count(self._part["skip"])

    @property
    def instructions(self) -> int:
        """Instructions recorded."""
        return _count(self._part["instructions"])

    @property
    def room_bytes(self) -> int:
        """What must be free on the disk."""
        room = parse_bytes(str(self.json["room"]))
        assert room is not None, "the reader of recipes takes nothing else"
        return room

    @property
    def expect(self) -> Json | None:
        """What a short recording must be like."""
        return self.json.get("expect")

    @property
    def expect_part(self) -> tuple[int, int]:
        """Instructions left out and recorded for the short recording."""
        expect = self.json["expect"]
        return _count(expect.get("skip") or self._part["skip"]), _count(expect["instructions"])

    @property
    def wants_port(self) -> bool:
        """Whether any command names a port."""
        texts = list(self.record["run"])
        if self.server:
            texts += self.server["ready"]
            texts += [text for step in self.server["drive"] for text in step["run"]]
        return any("{port}" in text for text in texts)
