"""The digest of the code behind a stage: of its module and of every module of smelt that it reaches by import.

Taken from the syntax tree without docstrings, so that comments, formatting and documentation do not count, in a form that
does not depend on the version of Python. The spine (`smelt.plan`) and the command line do not count either: they decide what
runs, not what a stage computes. Nor does the `__init__` of the package, which holds the version number alone: a release runs
again only what it changed.
"""

import ast
import functools
import hashlib
import json
from pathlib import Path
from typing import Any

from smelt.plan.manifest import write_atomically

PACKAGE = "smelt"
SOURCE = Path(__file__).resolve().parents[2]
"""The folder that holds the package."""
DATA_FILES = (".j2", ".css", ".js")
"""Files beside a module that are part of what it does: templates and what they include."""
MEMORY = Path(".snakemake") / "smelt-code.json"
"""What was read of each module, by the sha256 of its content: to parse a hundred modules at every start takes half a second."""
MOST_REMEMBERED = 1000
NOT_COUNTED = (f"{PACKAGE}.plan", f"{PACKAGE}.cli")


def code_digest(stage: str) -> str:
    """16 hex digits over `code_modules(stage)`."""
    digest = hashlib.sha256()
    for name, own in code_modules(stage).items():
        digest.update(f"{name}={own}\n".encode())
    return digest.hexdigest()[:16]


@functools.cache
def code_modules(stage: str) -> dict[str, str]:
    """Module (or template) → digest of its own content, for every module that `smelt.<stage>.stage` reaches."""
    found: dict[str, str] = {}
    todo = [f"{PACKAGE}.{stage}.stage"]
    while todo:
        name = todo.pop()
        if name not in found and _counts(name):
            found[name], imported = _scan(name)
            todo.extend(imported)
    for folder in {path.parent for name in found if (path := _path(name))}:
        found |= {
            file.relative_to(SOURCE).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()[:16]
            for file in folder.rglob("*")
            if file.suffix in DATA_FILES
        }
    return dict(sorted(found.items()))


def _counts(name: str) -> bool:
    return name != PACKAGE and not any(name == left_out or name.startswith(left_out + ".") for left_out in NOT_COUNTED)


@functools.cache
def _path(name: str) -> Path | None:
    base = SOURCE.joinpath(*name.split("."))
    for candidate in (base / "__init__.py", base.with_suffix(".py")):
        if candidate.is_file():
            return candidate
    return None


@functools.cache
def _scan(name: str) -> tuple[str, frozenset[str]]:
    """The module's own digest, and the modules of the package that it names in imports anywhere (also inside functions)."""
    path = _path(name)
    if path is None:
        raise ModuleNotFoundError(f"no module {name!r} under {SOURCE}", name=name)
    own, named = _memory().get(name, path)
    # The __init__ of each parent runs as well.
    parents = [name.rsplit(".", depth)[0] for depth in range(1, name.count(".") + 1)]
    modules = {module for each in [*named, *parents] if (module := _module_of(each)) is not None}
    return own, frozenset(modules - {name})


class _Memory:
    """Digests and imports of modules whose content was seen before."""

    def __init__(self) -> None:
        self.reader = Path(__file__).read_bytes()
        """This file: read another way, the same module may give another digest."""
        self.known: dict[str, Any] = {}
        self.new: dict[str, Any] = {}
        try:
            found = json.loads(MEMORY.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # absent or broken: the modules are read again
            return
        if isinstance(found, dict) and all(
            isinstance(each, list) and [type(part) for part in each] == [str, list] for each in found.values()
        ):
            self.known = found

    def get(self, name: str, path: Path) -> tuple[str, list[str]]:
        """The module's own digest, and the names in its imports that are of this package."""
        content = path.read_bytes()
        key = hashlib.sha256(b"\0".join([name.encode(), path.name.encode(), self.reader, content])).hexdigest()
        if key not in self.known:
            parts: list[str] = []
            named: set[str] = set()
            _read(
                ast.parse(content, str(path)),
                name if path.name == "__init__.py" else name.rpartition(".")[0],
                parts,
                named,
            )
            own = hashlib.sha256("".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
            self.known[key] = self.new[key] = [own, sorted(each for each in named if each.split(".")[0] == PACKAGE)]
        own, names = self.known[key]
        return own, names

    def write(self) -> None:
        if self.new and MEMORY.parent.is_dir():
            kept = self.known if len(self.known) <= MOST_REMEMBERED else self.new
            write_atomically(MEMORY, json.dumps(kept), sync=False)
            self.new = {}


@functools.cache
def _memory() -> _Memory:
    return _Memory()


def remember() -> None:
    """Keep what was read of the modules for the next start, where Snakemake has its folder."""
    _memory().write()


def _read(node: Any, package: str, parts: list[str], named: set[str]) -> None:
    """Append what counts of a syntax tree to `parts`, and what its imports name to `named`.

    Empty fields are left out: versions of Python differ in which of them there are, and `ast.dump` follows them.
    """
    if isinstance(node, ast.AST):
        if isinstance(node, ast.Import | ast.ImportFrom):
            named.update(_imported(node, package))
        parts.append(f"({type(node).__name__}")
        for field in node._fields:
            value: Any = getattr(node, field, None)
            if field == "body" and _is_documented(node):
                value = value[1:]
            if value is not None and value != []:
                parts.append(f" {field}=")
                _read(value, package, parts, named)
        parts.append(")")
    elif isinstance(node, list):
        for each in node:
            _read(each, package, parts, named)
    else:
        parts.append(repr(node))


def _imported(node: ast.Import | ast.ImportFrom, package: str) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    # One dot is the package itself, each further one its parent.
    start = package.rsplit(".", node.level - 1)[0] if node.level else ""
    source = ".".join(filter(None, [start, node.module]))
    return [source, *(f"{source}.{alias.name}" for alias in node.names)]


def _is_documented(node: ast.AST) -> bool:
    """Whether the body of a module, class or function begins with a docstring."""
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or not node.body:
        return False
    first = node.body[0]
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)


def _module_of(name: str) -> str | None:
    """`smelt.a.b.function` → `smelt.a.b`; None for what is not of this package."""
    while name == PACKAGE or name.startswith(PACKAGE + "."):
        if _path(name):
            return name
        name = name.rpartition(".")[0]
    return None
