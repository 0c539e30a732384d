"""Sweep files: TOML read into axes, samples, constraints and options. Errors name the place and the remedy."""

import keyword
import math
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmulab import UserError, engine, units
from mmulab.sweep.axes import HOST_POLICY, MACHINE, OWN, POLICY, SEED, TRACE, Axis, Range, assignment
from mmulab.sweep.columns import RESERVED
from mmulab.sweep.constraint import Constraint, Value
from mmulab.sweep.keys import only_known
from mmulab.sweep.pods import KIND, Pods, parse_pods
from mmulab.sweep.queue import KINDS, Queue, parse_queue
from mmulab.sweep.samples import METHODS, SOBOL_MAX, Sample

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLES = ("name", "constraints", "axes", "set", "options", "sample", "cluster")
# Options of a run, and how each is read.
COUNTS = ("skip", "max_instructions")
OPTIONS = (*COUNTS, "base_cpi", "savable", "timing", "touched", "profile", "unmapped")
# The key behind the axis `seed`. As a key, and not as an option of the run, all seeds share one decoding of the trace.
SEED_KEY = "memory.seed"
KEYED = ("key", "values", "from", "to", "step", "scale", "pick")
# What tables keep of whole numbers: 64 bits with a sign.
COUNT_MAX = 2**63 - 1
# More points than a sweep runs in months; fewer than fill the memory.
POINTS_MAX = 1 << 20


@dataclass(frozen=True)
class Sweep:
    """A sweep as its file describes it."""

    name: str
    place: str
    axes: tuple[Axis, ...]
    ranges: tuple[Range, ...] = ()
    sample: Sample | None = None
    constraints: tuple[Constraint, ...] = ()
    # Assignments for all jobs.
    sets: tuple[str, ...] = ()
    options: engine.Options = field(default_factory=engine.Options)
    # The jobs of a batch queue, or the pods, that run it; None runs it on this computer.
    cluster: Queue | Pods | None = None

    @property
    def varied(self) -> tuple[Axis | Range, ...]:
        """Everything that varies: axes in their order in the file, then what is drawn."""
        return (*self.axes, *self.ranges)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all of them."""
        return tuple(axis.name for axis in self.varied)


def read(path: str | Path) -> Sweep:
    """A sweep out of a TOML file. Raises UserError for what is wrong in it."""
    path = Path(path)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}\nhint: give a sweep file; docs/guide/sweeps.md has one") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not a text in UTF-8\nhint: give a sweep file in TOML") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: not TOML: {error}\nhint: texts stand in quotes, lists in brackets") from None
    return parse(data, str(path), path.stem)


def parse(data: dict[str, Any], place: str = "sweep", name: str = "sweep") -> Sweep:
    """A sweep out of what a TOML file holds. `place` stands in errors, `name` where the data have none."""
    only_known(data, TABLES, place, "a sweep file")
    axes, ranges = _axes(_table(data, "axes", place), f"{place}: axes")
    sample = _sample(data, len(ranges), place)
    names = [*(axis.name for axis in axes), *(drawn.name for drawn in ranges)]
    _refuse_twice([*axes, *ranges], _table(data, "set", place), place)
    constraints = data.get("constraints", [])
    if not isinstance(constraints, list) or not all(isinstance(text, str) for text in constraints):
        raise UserError(f'{place}: constraints: give a list of texts, as ["entries % ways == 0"]')
    return Sweep(
        name=_name(data.get("name", name), place),
        place=place,
        axes=tuple(axes),
        ranges=tuple(ranges),
        sample=sample,
        constraints=tuple(
            Constraint(text, f"{place}: constraint {number}", names) for number, text in enumerate(constraints, 1)
        ),
        sets=tuple(
            assignment(key, _value(value, f"{place}: set: {key}")) for key, value in _table(data, "set", place).items()
        ),
        options=_options(_table(data, "options", place), f"{place}: options"),
        cluster=_cluster(_table(data, "cluster", place), f"{place}: cluster") if "cluster" in data else None,
    )


def _cluster(table: dict[str, Any], place: str) -> Queue | Pods:
    kind = table.get("kind")
    if kind == KIND:
        return parse_pods(table, place)
    if kind not in KINDS:
        raise UserError(f"{place}.kind: {kind!r}: give {', '.join(KINDS)} or {KIND}")
    return parse_queue(table, place)


def _name(given: Any, place: str) -> str:
    if not isinstance(given, str) or not given or set(given) & set("/\0") or given.startswith("."):
        raise UserError(
            f"{place}: name: {given!r} cannot be a part of a directory's name\nhint: give letters and digits"
        )
    return given


def _refuse_twice(varied: list[Axis | Range], sets: dict[str, Any], place: str) -> None:
    """Of two values for one key, only the last would count."""
    found = dict.fromkeys(sets, "set")
    for axis in varied:
        for key in axis.keys:
            if key in found:
                raise UserError(
                    f"{place}: axes.{axis.name}: {found[key]} has a value for {key}, too\nhint: leave one of them out"
                )
            found[key] = f"axes.{axis.name}"


def _table(data: dict[str, Any], key: str, place: str) -> dict[str, Any]:
    found = data.get(key, {})
    if not isinstance(found, dict):
        raise UserError(f"{place}: {key}: {found!r} is not a table\nhint: write [{key}]")
    return found


def _value(value: Any, place: str) -> Value:
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{place}: {value} is not a finite number")
    if isinstance(value, int) and abs(value) > COUNT_MAX:
        raise UserError(f"{place}: {value} is too large: give at most {COUNT_MAX}")
    if not isinstance(value, str | int | float | bool):
        raise UserError(f"{place}: {value!r} is not a text, a number or a truth value")
    return value


def _values(given: Any, place: str) -> tuple[Value, ...]:
    values = tuple(_value(value, place) for value in (given if isinstance(given, list) else [given]))
    if not values:
        raise UserError(f"{place}: the list is empty\nhint: give at least one value")
    if twice := [value for number, value in enumerate(values) if value in values[:number]]:
        raise UserError(f"{place}: {twice[0]!r} is listed twice\nhint: list each value once")
    kinds = {bool if isinstance(v, bool) else str if isinstance(v, str) else float for v in values}
    if len(kinds) > 1:
        raise UserError(f"{place}: the values are of several kinds\nhint: give texts only, or numbers only")
    return values


def _axes(table: dict[str, Any], place: str) -> tuple[list[Axis], list[Range]]:
    axes: list[Axis] = []
    ranges: list[Range] = []
    lowered: set[str] = set()
    for name, given in table.items():
        here = f"{place}.{name}"
        _refuse_name(name, lowered, here)
        lowered.add(name.lower())
        if name in OWN:
            axes.append(_own_axis(name, given, here))
            continue
        axis = _keyed(name, given, here)
        axes += [axis] if isinstance(axis, Axis) else []
        ranges += [axis] if isinstance(axis, Range) else []
    for name in (TRACE, MACHINE):
        if name not in table:
            raise UserError(f'{place}: no axis {name}\nhint: name at least one, as {name} = ["..."]')
    return axes, ranges


def _refuse_name(name: str, lowered: set[str], place: str) -> None:
    if not name.isascii() or not name.isidentifier() or keyword.iskeyword(name):
        raise UserError(
            f"{place}: an axis cannot have this name, because constraints and columns use it\n"
            "hint: give a short name of letters, digits and _, and the key beside it: "
            'entries = { key = "tlb.STLB.entries", values = [768, 1536] }'
        )
    # SQL does not distinguish small letters from capitals.
    if name.lower() in lowered:
        raise UserError(f"{place}: another axis has this name, but for capital letters\nhint: rename one of them")
    if name.lower() in RESERVED:
        raise UserError(f"{place}: a column of the results has this name\nhint: give the axis another name")


def _own_axis(name: str, given: Any, place: str) -> Axis:
    values = _values(given, place)
    if name == SEED:
        if not all(isinstance(value, int) and not isinstance(value, bool) and value >= 0 for value in values):
            raise UserError(f"{place}: {given!r} are not seeds\nhint: give whole numbers from 0 on")
        return Axis(name, values, (SEED_KEY,))
    if not all(isinstance(value, str) for value in values):
        listed = {MACHINE: "machines", POLICY: "policies", HOST_POLICY: "policies"}.get(name)
        remedy = f"`mmulab {listed}` lists names" if listed else "give files, gen:NAME?key=value or mix:NAME"
        raise UserError(f"{place}: {given!r} are not names\nhint: {remedy}")
    return Axis(name, values)


def _keyed(name: str, given: Any, place: str) -> Axis | Range:
    """An axis of a key: a list of values, or a range to draw from."""
    if not isinstance(given, dict):
        raise UserError(
            f"{place}: no key is named\n"
            f'hint: write {name} = {{ key = "tlb.STLB.entries", values = [...] }}; axes without a key: {", ".join(OWN)}'
        )
    only_known(given, KEYED, place, "an axis")
    keys = given.get("key")
    keys = [keys] if isinstance(keys, str) else keys
    if not isinstance(keys, list) or not keys or not all(isinstance(key, str) and key for key in keys):
        raise UserError(f'{place}.key: give a key as --set names it, such as "tlb.STLB.entries", or a list of keys')
    forms = [form for form in ("values", "from", "pick") if form in given]
    if len(forms) != 1:
        raise UserError(
            f"{place}: {' and '.join(forms) or 'no values'}\n"
            "hint: give one of values (every one is combined), from and to (drawn), or pick (drawn from a list)"
        )
    for option, of in (("to", "from"), ("step", "from"), ("scale", "from")):
        if option in given and of not in given:
            raise UserError(f"{place}.{option}: belongs to a range\nhint: give {of} too, or leave {option} out")
    if "values" in given:
        return Axis(name, _values(given["values"], f"{place}.values"), tuple(keys))
    if "pick" in given:
        return Range(name, tuple(keys), pick=_values(given["pick"], f"{place}.pick"))
    return _range(name, tuple(keys), given, place)


def _range(name: str, keys: tuple[str, ...], given: dict[str, Any], place: str) -> Range:
    ends = []
    for end in ("from", "to"):
        value = given.get(end)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise UserError(f"{place}.{end}: {value!r} is not a number\nhint: give both ends of the range: from and to")
        ends.append(value)
    least, most = ends
    if least >= most:
        raise UserError(f"{place}: from {least} is not below to {most}\nhint: exchange them")
    step, scale = given.get("step"), given.get("scale", "linear")
    if step is not None and (
        isinstance(step, bool) or not isinstance(step, int | float) or not 0 < step <= most - least
    ):
        raise UserError(f"{place}.step: {step!r}: give a number above 0 and at most {most - least}")
    if scale not in ("linear", "log"):
        raise UserError(f'{place}.scale: {scale!r}: give "linear" or "log"')
    if scale == "log" and (step is not None or least <= 0):
        raise UserError(f"{place}.scale: log needs a range above 0 without a step\nhint: leave scale out")
    return Range(name, keys, least, most, step, scale == "log")


def _sample(data: dict[str, Any], dimensions: int, place: str) -> Sample | None:
    if "sample" not in data:
        if dimensions:
            raise UserError(
                f"{place}: an axis with from or pick is drawn, but nothing says how\n"
                'hint: add [sample] with method = "sobol" (or "random") and points = 64'
            )
        return None
    table, here = _table(data, "sample", place), f"{place}: sample"
    only_known(table, ("method", "points", "seed"), here, "a sample")
    if not dimensions:
        raise UserError(f"{here}: no axis is drawn\nhint: give an axis from and to, or pick; or leave [sample] out")
    method, points, seed = table.get("method", "sobol"), table.get("points"), table.get("seed", 0)
    if method not in METHODS:
        raise UserError(f"{here}.method: {method!r}: give {' or '.join(METHODS)}")
    if method == "sobol" and dimensions > SOBOL_MAX:
        raise UserError(f"{here}: {dimensions} axes are drawn; a Sobol sequence has at most {SOBOL_MAX}")
    if isinstance(points, bool) or not isinstance(points, int) or not 1 <= points <= POINTS_MAX:
        raise UserError(f"{here}.points: {points!r}: give 1 to {POINTS_MAX}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise UserError(f"{here}.seed: {seed!r}: give a whole number from 0 on")
    return Sample(method, points, seed)


def _options(table: dict[str, Any], place: str) -> engine.Options:
    only_known(table, OPTIONS, place, "a run")
    fields = engine.options_schema()["properties"]
    found: dict[str, Any] = {}
    for key, given in table.items():
        value = units.parse_count(given) if key in COUNTS and isinstance(given, str) else given
        least, most = fields[key].get("minimum"), fields[key].get("maximum")
        if most is not None:
            whole = isinstance(value, int) if key in COUNTS else isinstance(value, int | float)
            if isinstance(value, bool) or not whole or not least <= value <= most:
                raise UserError(f"{place}.{key}: {given!r}: give a number from {least:g} to {most:g}")
        elif key in ("timing", "touched", "profile"):
            if not isinstance(value, bool):
                raise UserError(f"{place}.{key}: {given!r}: give true or false")
        elif value not in ("fault", "map", "stop"):
            raise UserError(f"{place}.{key}: {given!r}: give fault, map or stop")
        found[key] = value
    return engine.Options(**found)
