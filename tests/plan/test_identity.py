"""smelt.plan.identity: the digest of a stage's code follows what the code does, and only that."""

import ast
import hashlib
from pathlib import Path

import pytest

from small_plan import write
from smelt.plan import identity
from smelt.plan.stages import STAGES

FILES = {
    "smelt/__init__.py": '"""The package."""\n__version__ = "1"\n',
    "smelt/toy/__init__.py": "",
    "smelt/toy/stage.py": '''"""A stage."""
import json
import smelt.data.rows
from smelt.plan.manifest import canonical
from smelt.plan import errors
from . import near
from .deep.inner import value
from ..shared import tools as other_name


def run(job):
    """Doc."""
    from smelt.late import thing

    return 1 + 2
''',
    "smelt/toy/near.py": "A = 1\n",
    "smelt/toy/page.j2": "<p>",
    "smelt/toy/parts/row.css": "p {}",
    "smelt/toy/deep/__init__.py": "B = 1\n",
    "smelt/toy/deep/inner.py": "value = 1\n",
    "smelt/shared/__init__.py": "",
    "smelt/shared/tools.py": "import smelt.shared.further\n",
    "smelt/shared/further.py": "C = 1\n",
    "smelt/late.py": "thing = 1\n",
    "smelt/data/__init__.py": "",
    "smelt/data/rows.py": "D = 1\n",
    "smelt/data/unused.py": "E = 1\n",
    "smelt/plan/__init__.py": "",
    "smelt/plan/manifest.py": "F = 1\n",
    "smelt/plan/errors.py": "F = 1\n",
    "smelt/cli.py": "G = 1\n",
}


@pytest.fixture
def source(tmp_path: Path, monkeypatch) -> Path:
    for name, text in FILES.items():
        write(tmp_path / Path(name).parent, text, Path(name).name)
    monkeypatch.setattr(identity, "SOURCE", tmp_path)
    forget()
    yield tmp_path
    monkeypatch.undo()
    forget()


def forget() -> None:
    for cached in (identity.code_modules, identity._scan, identity._path, identity._memory):
        cached.cache_clear()


def digest() -> str:
    forget()
    return identity.code_digest("toy")


def edit(source: Path, name: str, old: str, new: str) -> None:
    path = source / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))


def test_every_module_that_is_reached_counts_and_no_other(source):
    assert set(identity.code_modules("toy")) == {
        "smelt.toy",
        "smelt.toy.stage",
        "smelt.toy.near",
        "smelt.toy.deep",
        "smelt.toy.deep.inner",
        "smelt.shared",
        "smelt.shared.tools",
        "smelt.shared.further",
        "smelt.late",  # imported inside a function
        "smelt.data",
        "smelt.data.rows",
        "smelt/toy/page.j2",
        "smelt/toy/parts/row.css",
    }


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("smelt/toy/stage.py", '"""A stage."""', '"""Another text."""'),
        ("smelt/toy/stage.py", '"""A stage."""\n', ""),
        ("smelt/toy/stage.py", '    """Doc."""\n', ""),
        ("smelt/toy/stage.py", "return 1 + 2", "return (1\n            +  2)  # three"),
        ("smelt/toy/stage.py", "import json", "import json  # noqa"),
        ("smelt/toy/near.py", "A = 1", "\n\n# why\nA=0x1"),
        ("smelt/plan/manifest.py", "F = 1", "F = 2"),
        ("smelt/cli.py", "G = 1", "G = 2"),
        ("smelt/data/unused.py", "E = 1", "E = 2"),
        ("smelt/__init__.py", '"1"', '"2"'),
    ],
)
def test_what_changes_nothing_that_is_computed_does_not_count(source, name, old, new):
    before = digest()
    edit(source, name, old, new)
    assert digest() == before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("smelt/toy/stage.py", "1 + 2", "1 + 3"),
        ("smelt/toy/stage.py", "1 + 2", "1 - 2"),
        ("smelt/toy/stage.py", "1 + 2", "1.0 + 2"),
        ("smelt/toy/stage.py", "1 + 2", "True + 2"),
        ("smelt/toy/stage.py", "def run(job)", "def run(job, more=1)"),
        ("smelt/toy/stage.py", "as other_name", "as another_name"),
        ("smelt/toy/near.py", "A = 1", "A = '1'"),
        ("smelt/toy/near.py", "A = 1", "A = b'1'"),
        ("smelt/toy/near.py", "A = 1", "A = 1\n'not a docstring'"),
        ("smelt/toy/deep/__init__.py", "B = 1", "B = 2"),
        ("smelt/toy/deep/inner.py", "value = 1", "value = 2"),
        ("smelt/shared/further.py", "C = 1", "C = 2"),
        ("smelt/late.py", "thing = 1", "thing = 2"),
        ("smelt/data/rows.py", "D = 1", "D = 2"),
        ("smelt/toy/page.j2", "<p>", "<q>"),
        ("smelt/toy/parts/row.css", "p {}", "q {}"),
    ],
)
def test_what_changes_the_product_counts(source, name, old, new):
    before = digest()
    edit(source, name, old, new)
    assert digest() != before


def test_an_edit_that_is_taken_back_leaves_the_digest(source):
    before = digest()
    edit(source, "smelt/toy/near.py", "A = 1", "A = 2")
    edit(source, "smelt/toy/near.py", "A = 2", "A = 1")
    assert digest() == before


def test_a_module_that_is_not_there_is_an_error(source):
    (source / "smelt/toy/stage.py").unlink()
    with pytest.raises(ModuleNotFoundError, match=r"smelt\.toy\.stage"):
        digest()


@pytest.mark.parametrize("name", ["smelt.plan.config", "smelt.plan.job", "smelt.cli"])
def test_the_formatting_of_real_code_does_not_count_and_its_numbers_do(name):
    path = identity.SOURCE / (name.replace(".", "/") + ".py")
    tree = ast.parse(path.read_text())
    parts: list[str] = []
    identity._read(tree, "smelt.plan", parts, set())
    own = hashlib.sha256("".join(parts).encode()).hexdigest()
    # Written anew from the tree: other quotes, line breaks and brackets, no comments.
    again: list[str] = []
    identity._read(ast.parse(ast.unparse(tree)), "smelt.plan", again, set())
    assert hashlib.sha256("".join(again).encode()).hexdigest() == own
    # And every constant of the module counts.
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
            node.value += 1
            break
    else:
        return
    changed: list[str] = []
    identity._read(tree, "smelt.plan", changed, set())
    assert changed != parts


def test_the_digest_does_not_depend_on_fields_that_only_some_versions_of_python_have():
    function = ast.parse("def f(): return 1")
    parts: list[str] = []
    identity._read(function, "p", parts, set())
    # `type_params` came with 3.12, `type_comment` may be None or absent.
    function.body[0].type_params = []
    again: list[str] = []
    identity._read(function, "p", again, set())
    assert again == parts
    assert not any("type_" in part for part in parts)


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_reaches_no_other_stage(stage):
    forget()
    others = tuple(f"smelt.{other}" for other in STAGES if other != stage)
    reached = [name for name in identity.code_modules(stage) if name in others or name.startswith(tuple(f"{other}." for other in others))]  # fmt: skip
    assert reached == []


def test_what_was_read_of_a_module_is_remembered_by_its_content(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".snakemake").mkdir()
    before = digest()
    assert len(identity._memory().new) == 11
    identity.remember()
    assert digest() == before
    assert identity._memory().new == {}
    edit(source, "smelt/toy/near.py", "A = 1", "A = 2")
    assert digest() != before
    assert len(identity._memory().new) == 1
    identity.remember()
    # Equal content elsewhere resolves its own relative imports.
    (source / "smelt" / "late.py").write_text((source / "smelt" / "toy" / "near.py").read_text())
    digest()
    assert len(identity._memory().new) == 1


@pytest.mark.parametrize("broken", ["", "{", "[]", '{"a": 1}', '{"a": ["x"]}'])
def test_a_broken_memory_of_modules_only_costs_time(source, tmp_path, monkeypatch, broken):
    monkeypatch.chdir(tmp_path)
    before = digest()
    write(tmp_path / ".snakemake", broken, "smelt-code.json")
    assert digest() == before
    identity.remember()
    assert digest() == before
