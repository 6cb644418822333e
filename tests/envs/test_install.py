"""`make setup`: what a person sees on a machine that lacks something, and that nothing is done twice."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout at a path with a space, whose lock asks for nothing but what smelt is built with."""
    folder = tmp_path / "my models"
    (folder / "envs").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "envs/install.py", "envs/clean.sh"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "envs" / "requirements.txt").write_text("")
    return folder


def make(checkout: Path, *arguments: str, **more) -> subprocess.CompletedProcess:
    # make's own variables of an outer `make test` would override ours.
    environment = {
        k: v for k, v in os.environ.items() if k not in ("VENV", "PYTHON", "TESTS", "YES", "MAKEFLAGS", "MAKELEVEL")
    }
    return subprocess.run(
        ["make", "--no-print-directory", "--directory", checkout, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        stdin=subprocess.DEVNULL,
        **more,
    )


def fake_environment(checkout: Path) -> Path:
    """Stands for a whole environment: its python records that it was called."""
    program = (
        "import sys, pathlib; sys.path.insert(0, 'envs'); import install, json;"
        "f = pathlib.Path('.venv').absolute(); (f / 'bin').mkdir(parents=True); (f / 'bin/python').write_text('');"
        "(f / '.installed').write_text(json.dumps(install.content_of(f)))"
    )
    subprocess.run([sys.executable, "-c", program], cwd=checkout, check=True)
    return checkout / ".venv"


def test_an_environment_of_this_lock_is_left_alone(checkout):
    environment = fake_environment(checkout)
    done = make(checkout, "setup", f"PYTHON={sys.executable}")
    assert (done.returncode, done.stdout) == (0, "")
    assert sorted(path.name for path in environment.iterdir()) == [".installed", "bin"]


@pytest.mark.parametrize("change", ["lock", "place", "interrupted"])
def test_an_environment_that_is_stale_moved_or_unfinished_is_seen(checkout, change):
    environment = fake_environment(checkout)
    if change == "lock":
        (checkout / "envs" / "requirements.txt").write_text("xxhash==4.1.0\n")
    elif change == "place":
        checkout = checkout.rename(checkout.with_name("elsewhere"))
    else:
        (environment / ".installed").unlink()
    done = make(checkout, "setup", f"PYTHON={sys.executable}")
    # The fake is no environment that could be mended, which is all that make setup can say of it.
    assert done.returncode != 0
    assert "is no virtual environment: move it away" in done.stderr


def test_a_folder_of_other_things_is_never_overwritten(checkout):
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / "thesis.tex").write_text("mine")
    done = make(checkout, "setup", f"PYTHON={sys.executable}")
    assert done.returncode != 0 and "move it away" in done.stderr
    assert (checkout / ".venv" / "thesis.tex").read_text() == "mine"


def test_a_missing_interpreter_is_named_with_the_way_out(checkout):
    done = make(checkout, "setup", "PYTHON=python-of-nowhere")
    assert done.returncode != 0
    assert "no python-of-nowhere here" in done.stderr and "make setup PYTHON=" in done.stderr


def run_as(checkout: Path, pretend: str) -> subprocess.CompletedProcess:
    """install.py in an interpreter that was altered by `pretend` beforehand."""
    program = f"import sys, importlib.util, runpy; {pretend}; sys.argv = ['install.py']; runpy.run_path('envs/install.py', run_name='__main__')"
    return subprocess.run([sys.executable, "-c", program], cwd=checkout, capture_output=True, text=True)


def test_an_old_python_is_refused_with_a_newer_one_or_the_way_to_name_it(checkout):
    done = run_as(checkout, "sys.version_info = (3, 10, 13, 'final', 0)")
    assert done.returncode == 1
    assert "smelt needs Python 3.11 or newer" in done.stderr and "3.10.13" in done.stderr
    assert "make setup PYTHON=" in done.stderr
    assert not (checkout / ".venv").exists()


def test_a_python_without_ensurepip_is_refused_with_the_package_to_install(checkout):
    pretend = "f = importlib.util.find_spec; importlib.util.find_spec = lambda n: None if n == 'ensurepip' else f(n)"
    done = run_as(checkout, pretend)
    assert done.returncode == 1
    version = "python{}.{}-venv".format(*sys.version_info[:2])
    assert "ensurepip" in done.stderr and f"apt install {version}" in done.stderr


def test_clean_removes_nothing_without_being_asked_twice(checkout):
    for folder in ("results", ".snakemake"):
        (checkout / folder).mkdir()
    refused = make(checkout, "clean")
    assert refused.returncode != 0 and "YES=1" in refused.stderr
    assert (checkout / "results").is_dir() and (checkout / ".snakemake").is_dir()
    assert make(checkout, "clean", "YES=1").returncode == 0
    assert not (checkout / "results").exists() and not (checkout / ".snakemake").exists()
    assert "Nothing to remove" in make(checkout, "clean").stdout


def test_make_alone_lists_every_target(checkout):
    listed = make(checkout).stdout
    phony = next(line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith(".PHONY"))
    for target in phony.partition(":")[2].split():
        assert f"make {target} " in listed
