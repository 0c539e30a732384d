"""Which Rust files of a crate use which: `use` declarations and paths, resolved to the file that defines the item.

It reads tokens, not types, so what a call of a method uses is not seen. Tests (`#[cfg(test)]`) are left out. A
re-export is followed to where the item is defined, so a `mod.rs` that only declares and re-exports uses no module. A
`mod.rs` that includes a list of its folder, written by a build script, has and uses every file of the folder.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

_ASIDE = re.compile(
    r"""//[^\n]* | /\*.*?\*/
    | \bb?r(\#*)".*?"\1 | (?:\bb)?"(?:\\.|[^"\\])*"
    | (?:\bb)?'(?:\\[^']+|[^'\\])'""",
    re.DOTALL | re.VERBOSE,
)
_TEST = re.compile(r"#!?\[cfg\((?:all\()?test\b[^\]]*\]")
_TOKEN = re.compile(r"[A-Za-z_]\w*!?|::|=>|[^\s\w]|\d\w*")
_NAME = re.compile(r"[A-Za-z_]\w*$")
_DEFINES = ("struct", "enum", "trait", "fn", "type", "const", "static", "union", "macro_rules!")
_KEYWORDS = ("crate", "self", "super")

Names = tuple[str, ...]
Asked = frozenset[tuple[Path, str]]


@dataclass
class Import:
    """A leaf of a `use` declaration. A glob has no name."""

    name: str | None
    path: Names
    is_public: bool


@dataclass(eq=False)
class Module:
    """A file of a crate."""

    file: Path
    parent: "Module | None"
    children: dict[str, "Module"] = field(default_factory=dict)
    # Names of items that the file defines.
    defines: set[str] = field(default_factory=set)
    imports: list[Import] = field(default_factory=list)
    # Paths in code, `use` declarations aside: those of one name too.
    paths: set[Names] = field(default_factory=set)
    # Files of the folder, if the file includes their list.
    listed: set[Path] = field(default_factory=set)

    @property
    def root(self) -> "Module":
        """The crate's."""
        return self.parent.root if self.parent else self

    def all(self) -> list["Module"]:
        """This one and all below."""
        return [self, *(below for child in self.children.values() for below in child.all())]


def without_tests(text: str) -> str:
    """Code without comments, strings and what is compiled for tests only."""
    text = _ASIDE.sub(" ", text)
    while found := _TEST.search(text):
        if found[0].startswith("#!"):
            return ""
        at = end = found.end()
        depth = 0
        # To the end of the item: a semicolon or a closing brace.
        while end < len(text):
            char = text[end]
            end += 1
            depth += (char in "{([") - (char in "})]")
            if depth == 0 and (char == ";" or (char == "}" and "{" in text[at:end])):
                break
        text = text[: found.start()] + text[end:]
    return text


def read_crate(source: Path) -> list[Module]:
    """The crate's roots (`lib.rs`, `main.rs`), each with its modules."""
    return [_read(source / name, None) for name in ("lib.rs", "main.rs") if (source / name).exists()]


def _read(file: Path, parent: Module | None) -> Module:
    made = Module(file, parent)
    tokens = _TOKEN.findall(without_tests(file.read_text(encoding="utf-8")))
    _read_tokens(made, tokens)
    folder = file.parent if file.name in ("mod.rs", "lib.rs", "main.rs") else file.with_suffix("")
    if file.name == "mod.rs" and "include!" in tokens:
        made.listed = {path for path in folder.glob("*.rs") if path != file}
    for name in [*re.findall(r"(?:^|\s)mod (\w+) ;", " ".join(tokens)), *sorted(path.stem for path in made.listed)]:
        for path in (folder / f"{name}.rs", folder / name / "mod.rs"):
            if path.exists():
                made.children[name] = _read(path, made)
    return made


def _read_tokens(module: Module, tokens: list[str]) -> None:
    at = depth = 0
    # Depths at which modules within the file begin. There `super` is the file, or a module within it.
    within: list[int] = []
    while at < len(tokens):
        token = tokens[at]
        if token == "use" and tokens[at + 1] != "<":
            end = tokens.index(";", at)
            is_public = tokens[at - 1] == "pub" or (tokens[at - 1] == ")" and "pub" in tokens[max(0, at - 6) : at])
            leaves = _leaves(tokens[at + 1 : end])
            module.imports += [Import(name, _of_file(path, len(within)), is_public) for name, path in leaves]
            at = end
        elif token == "mod" and tokens[at + 2] == "{":
            within.append(depth)
            at += 1
        elif depth == 0 and token in _DEFINES and _NAME.match(tokens[at + 1]):
            module.defines.add(tokens[at + 1])
            at += 1
        elif _NAME.match(token) and (at == 0 or tokens[at - 1] not in ("::", ".")):
            path = [token]
            while at + 2 < len(tokens) and tokens[at + 1] == "::" and _NAME.match(tokens[at + 2]):
                path.append(tokens[at + 2])
                at += 2
            module.paths.add(_of_file(tuple(path), len(within)))
        depth += (token == "{") - (token == "}")
        if within and token == "}" and depth == within[-1]:
            within.pop()
        at += 1


def _of_file(path: Names, within: int) -> Names:
    """The path as seen from the top of the file; it was written `within` modules deep in that file."""
    supers = next((index for index, name in enumerate(path) if name != "super"), len(path))
    inside = min(within, supers)
    return ("self", *path[inside:]) if inside else path


def _leaves(tokens: list[str], before: Names = ()) -> list[tuple[str | None, Names]]:
    """The names that the tree of a `use` declaration brings, each with its path."""
    found: list[tuple[str | None, Names]] = []
    path, at = before, 0
    while at < len(tokens):
        token = tokens[at]
        if token == "{":
            depth, start, end = 0, at + 1, at
            while True:
                depth += (tokens[end] == "{") - (tokens[end] == "}")
                if depth == 0 or (depth == 1 and tokens[end] == ","):
                    found += _leaves(tokens[start:end], path)
                    start = end + 1
                if depth == 0:
                    return found
                end += 1
        if token == "*":
            return [(None, path)]
        if token == "as":
            return [(tokens[at + 1], path)]
        if token == "self" and path:
            return [(path[-1], path)]
        if token != "::":
            path = (*path, token)
        at += 1
    return [(path[-1], path)] if path != before else []


def uses(module: Module) -> set[Path]:
    """The files that define what a file uses."""
    names = {path[0] for path in module.paths}
    found: set[Path] = set(module.listed)
    for one in module.imports:
        target = _resolve(module, one.path)
        if one.name is None:
            if isinstance(target, Module):
                found |= {file for name in names if isinstance(file := _look_up(target, name, True), Path)}
        elif isinstance(target, Path) and (not one.is_public or one.name in names):
            found.add(target)
    for path in module.paths:
        target = _resolve(module, path) if len(path) > 1 else None
        if isinstance(target, Path):
            found.add(target)
    return found - {module.file}


def _resolve(module: Module, path: Names, asked: Asked = frozenset()) -> Module | Path | None:
    """The module that a path names, or the file of its item; None outside the crate."""
    at = module
    is_inside = False
    for index, name in enumerate(path):
        if name in _KEYWORDS:
            above = {"crate": at.root, "self": at, "super": at.parent}[name]
            if above is None:
                return None
            at, is_inside = above, True
            continue
        target = _look_up(at, name, index == len(path) - 1, asked)
        if not isinstance(target, Module):
            # What a macro defines is found in the file that calls the macro.
            return target or (at.file if is_inside else None)
        at, is_inside = target, True
    return at if is_inside else None


def _look_up(module: Module, name: str, is_last: bool, asked: Asked = frozenset()) -> Module | Path | None:
    """What a name means in a module. Where an item and a module share it, the last name of a path is the item.

    `asked`: modules and names on the way here, which a `use` of external things would lead to again.
    """
    if (module.file, name) in asked:
        return None
    asked |= {(module.file, name)}
    if name in module.children and not is_last:
        return module.children[name]
    if name in module.defines:
        return module.file
    for one in module.imports:
        if one.name == name and (target := _resolve(module, one.path, asked)) is not None:
            return target
    if name in module.children:
        return module.children[name]
    for one in module.imports:
        target = _resolve(module, one.path, asked) if one.name is None else None
        if isinstance(target, Module) and (found := _look_up(target, name, is_last, asked)) is not None:
            return found
    return None
