"""The lock is exact, whole, the same for every platform, and in step with what the code imports."""

import ast
import functools
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "envs" / "requirements.txt"
WANTED = ROOT / "envs" / "requirements.in"

CALLED_NOT_IMPORTED = {
    "accelerate": "transformers.Trainer imports it",
    "hypothesis": "tests only",
    "import-linter": "make check",
    "mypy": "make check",
    "protobuf": "transformers reads SentencePiece models with it",
    "pytest-timeout": "a pytest plugin",
    "pytest-xdist": "a pytest plugin",
    "ruff": "make check",
    "setuptools": "the build backend of pyproject.toml",
    "snakefmt": "make check",
    "snakemake": "the workflow; workflow/Snakefile imports it",
    "snakemake-executor-plugin-slurm": "a Snakemake plugin",
    "tensorboard": "torch.utils.tensorboard imports it",
    "types-pyyaml": "type stubs for mypy",
    "types-requests": "type stubs for mypy",
}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(path: Path) -> dict[str, str]:
    """Package → the rest of its line, without comments."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line := line.partition("#")[0].strip():
            name = re.match(r"[A-Za-z0-9._-]+", line)[0]
            found[normal(name)] = line[len(name) :].partition(";")[0].strip()
    return found


@functools.cache
def imported() -> dict[str, str]:
    """Third-party package that some module or test of ours imports → one such file."""
    owners = metadata.packages_distributions()
    own = {"smelt", *(path.stem for folder in ("tests", "benchmarks") for path in (ROOT / folder).rglob("*.py"))}
    found = {}
    for folder in ("workflow", "tests", "benchmarks"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
                names = []
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    names = [node.module]
                for top in {name.partition(".")[0] for name in names} - sys.stdlib_module_names - own:
                    found[normal(owners[top][0]) if top in owners else top] = str(path.relative_to(ROOT))
    return found


def test_a_version_that_is_not_exact_would_make_two_installations_differ():
    inexact = {name: rest for name, rest in requirements(LOCK).items() if not re.fullmatch(r"==[A-Za-z0-9.]+", rest)}
    assert not inexact


def test_the_lock_has_the_torch_that_everything_was_measured_with():
    assert requirements(LOCK)["torch"] == "==2.13.0"


def test_nothing_of_one_platform_or_one_index_is_in_the_lock():
    text = LOCK.read_text(encoding="utf-8")
    packages = requirements(LOCK)
    assert not [name for name in packages if re.match(r"nvidia|cuda|triton", name)]
    assert "://" not in text and "file:" not in text and "--" not in text


def test_every_direct_dependency_is_locked_at_a_version_that_it_allows():
    locked = requirements(LOCK)
    for name, wanted in requirements(WANTED).items():
        assert name in locked, f"{name} stands in requirements.in and not in the lock: make lock"
        assert wanted in ("", locked[name]), f"{name}{wanted} is asked for, {locked[name]} is locked: make lock"


def test_what_the_code_imports_is_asked_for_by_name():
    missing = {name: where for name, where in imported().items() if name not in requirements(WANTED)}
    assert not missing, "not in envs/requirements.in"


def test_nothing_is_installed_that_nobody_uses():
    unused = set(requirements(WANTED)) - set(imported()) - set(CALLED_NOT_IMPORTED)
    assert not unused, "in envs/requirements.in, and neither imported nor called"


def test_the_tests_run_with_the_locked_versions():
    """Else a result could not be told from that of another version."""
    differing = {}
    for name, rest in requirements(LOCK).items():
        try:
            version = metadata.version(name).partition("+")[0]
        except metadata.PackageNotFoundError:
            version = "missing"
        if f"=={version}" != rest:
            differing[name] = version
    if differing and Path(sys.prefix).resolve() != (ROOT / ".venv").resolve():
        pytest.skip(f"not the environment of make setup: {differing}")
    assert not differing
