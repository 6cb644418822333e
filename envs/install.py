"""Make a virtual environment from the lock: `make setup`, or `python3 envs/install.py [FOLDER]` (default .venv).

Does nothing where the environment is whole and of this lock. A stamp written last tells that; without it, or with
another lock or place, pip runs again, so that an interrupted or moved environment mends itself. Needs the standard
library only.
"""

import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

OLDEST = (3, 11)
ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "envs" / "requirements.txt"


def usable() -> list[str]:
    """Names on PATH of interpreters that are new enough."""
    found = []
    for minor in range(OLDEST[1], 20):
        name = f"python3.{minor}"
        # A version manager's shim may be on PATH without an interpreter behind it.
        if shutil.which(name) and subprocess.run([name, "-c", ""], stderr=subprocess.DEVNULL).returncode == 0:
            found.append(name)
    return found


def check_interpreter() -> None:
    """Exit with the way out if this Python is too old or can't make environments."""
    version = ".".join(map(str, sys.version_info[:3]))
    wanted = ".".join(map(str, OLDEST))
    if sys.version_info < OLDEST:
        others = usable()
        way_out = f"make setup PYTHON={others[-1]}" if others else "install one, then: make setup PYTHON=/path/to/it"
        sys.exit(f"smelt needs Python {wanted} or newer, and {sys.executable} is {version}. Try: {way_out}")
    missing = [name for name in ("venv", "ensurepip") if importlib.util.find_spec(name) is None]
    if missing:
        package = "python{}.{}-venv".format(*sys.version_info[:2])
        sys.exit(
            f"{sys.executable} lacks its module {missing[0]}, which makes virtual environments. "
            f"Debian and Ubuntu: apt install {package}. Or name another interpreter: make setup PYTHON=python3.12"
        )


def content_of(folder: Path) -> dict[str, str]:
    """What the environment is made of; any difference makes pip run again."""
    files = LOCK.read_bytes() + (ROOT / "pyproject.toml").read_bytes()
    # Both places count: smelt is installed as a link to the project, and scripts name their environment's folder.
    return {"lock": hashlib.sha256(files).hexdigest(), "folder": str(folder), "project": str(ROOT)}


def is_whole(folder: Path, content: dict[str, str]) -> bool:
    stamp = folder / ".installed"
    if not stamp.is_file() or not (folder / "bin" / "python").exists():
        return False
    return stamp.read_text(encoding="utf-8") == json.dumps(content)


def make_environment(folder: Path) -> None:
    """An empty environment, unless one that works is there already."""
    python, about = folder / "bin" / "python", folder / "pyvenv.cfg"
    if about.is_file():
        # Scripts name the folder in their first line, so a moved environment is of no use; its `command` tells.
        here = about.read_text(encoding="utf-8").rstrip().endswith(str(folder))
        if (
            here
            and python.exists()
            and subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0
        ):
            return
    elif folder.is_dir() and any(folder.iterdir()):
        sys.exit(f"{folder} is there and is no virtual environment: move it away, then run make setup again")
    print(f"Making {folder} with {sys.executable}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)


def pip_install(folder: Path, log: Path, *arguments: str | Path) -> None:
    """Run pip with its output in a log; every 10 s a line on how far it is. Exits with the log's end on an error."""
    command = [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", *arguments]
    began = time.monotonic()
    with log.open("a", encoding="utf-8") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        while process.poll() is None:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                print(f"  {time.monotonic() - began:4.0f} s: {progress(log)}", flush=True)
    if process.returncode:
        print("\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]), file=sys.stderr)
        sys.exit(f"pip could not install (its whole output: {log}). Mend the cause, then run the same command again.")


def progress(log: Path) -> str:
    """What pip's output so far amounts to."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    if any(line.startswith("Installing collected") for line in lines):
        return "installing"
    found = sum(line.startswith(("Collecting", "Requirement already satisfied")) for line in lines)
    return f"{found} packages found"


def main() -> None:
    check_interpreter()
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / ".venv").absolute()
    content = content_of(folder)
    if is_whole(folder, content):
        return
    began = time.monotonic()
    make_environment(folder)
    stamp, log = folder / ".installed", folder / "install.log"
    stamp.unlink(missing_ok=True)
    log.unlink(missing_ok=True)
    print(f"Installing envs/requirements.txt: minutes the first time; pip's output goes to {log}", flush=True)
    pip_install(folder, log, "--requirement", LOCK)
    # Nothing is left to resolve, and setuptools is in the lock: no index and no environment for the build are needed.
    pip_install(folder, log, "--no-deps", "--no-build-isolation", "--editable", ROOT)
    stamp.write_text(json.dumps(content), encoding="utf-8")
    print(f"Ready in {time.monotonic() - began:.0f} s: {folder}", flush=True)


if __name__ == "__main__":
    main()
