"""What a person waits for: help, plan, explain and gc import nothing heavy, and no stage."""

import subprocess
import sys
from pathlib import Path

import pytest

from small_plan import small, write

HEAVY = ("torch", "transformers", "deepspeed", "sklearn", "peft", "datasets", "matplotlib", "pandas", "scipy", "numpy")
PROBE = """
import sys
from smelt.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit as ending:
    code = ending.code
print("IMPORTED", *sorted(name for name in sys.modules if "." not in name or name.startswith("smelt.")))
sys.exit(code or 0)
"""


@pytest.mark.parametrize("command", [["--help"], ["corpus", "--help"], ["plan"], ["explain"], ["explain", "--json"], ["gc"], ["watch", "--once"]])  # fmt: skip
def test_a_look_imports_nothing_heavy(tmp_path: Path, command: list[str]):
    write(tmp_path / "config", small())
    done = subprocess.run([sys.executable, "-c", PROBE, *command], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    imported = done.stdout.rpartition("IMPORTED")[2].split()
    assert not set(HEAVY) & set(imported)
    packages = {name.split(".")[1] for name in imported if name.startswith("smelt.")}
    assert packages <= {"plan", "cli"}


def test_the_spine_imports_no_stage_and_nothing_heavy():
    """Also where it is not called: `import smelt.plan.*` one by one."""
    code = """
import importlib, pkgutil, sys, smelt.plan
for module in pkgutil.walk_packages(smelt.plan.__path__, "smelt.plan."):
    importlib.import_module(module.name)
print(*sorted(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = done.stdout.split()
    assert not set(HEAVY) & set(imported)
    assert {name.split(".")[1] for name in imported if name.startswith("smelt.")} == {"plan"}
