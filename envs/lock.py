"""Make envs/requirements.txt, the lock, of envs/requirements.in: `make lock`.

pip resolves in an empty environment without installing, and reports what it chose. Versions of the present lock are
kept where requirements.in still allows them; `make lock UPGRADE=1` takes the newest of everything. Needs the standard
library only.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ENVS = Path(__file__).resolve().parent
HEADER = """\
# The lock: exact versions of all that smelt runs on. Made by `make lock` of requirements.in; do not edit.
#
# No hashes, since the torch build differs by platform (CPU, CUDA, macOS) under one version. What a CUDA build of torch
# brings with it (nvidia-*, cuda-*, triton) is not listed: torch itself demands exact versions of it.
# Resolved with the oldest Python that smelt takes, {python}, on Linux. A package that only another platform needs is not
# here: there pip chooses it.
"""
OLDEST = (3, 11)
OF_TORCH = re.compile(r"nvidia-|cuda-|triton$|pytorch-triton")
"""Comes with torch's CUDA builds and is pinned by them; naming it would force it on machines without CUDA."""
PLATFORM = re.compile(r"sys_platform|platform_system|platform_machine|os_name|platform_python_implementation")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def normal(name: str) -> str:
    """PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def resolve(requirements: Path, constraints: Path | None) -> list[dict]:
    """What pip would install in an empty environment: the metadata of each package, from pip's installation report."""
    with tempfile.TemporaryDirectory(prefix="smelt-lock-") as folder:
        report = Path(folder, "report.json")
        venv.create(Path(folder, "venv"), with_pip=True)
        command = [
            Path(folder, "venv", "bin", "python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--dry-run",
            "--report",
            report,
        ]
        if constraints:
            command += ["--constraint", constraints]
        subprocess.run([*command, "--ignore-installed", "--requirement", requirements], check=True)
        return [each["metadata"] for each in json.loads(report.read_text(encoding="utf-8"))["install"]]


def demands(metadata: list[dict]) -> dict[str, dict[str, str]]:
    """Package → {package that asks for it: the marker under which it does, or ""}."""
    found: dict[str, dict[str, str]] = {}
    for package in metadata:
        for line in package.get("requires_dist", []):
            wanted, _, marker = line.partition(";")
            found.setdefault(normal(NAME.match(wanted)[0]), {})[normal(package["name"])] = marker.strip()
    return found


def lock_line(package: dict, direct: set[str], asked_by: dict[str, str]) -> str:
    """`name==version[; platform marker]  # via who asks for it`."""
    name = normal(package["name"])
    line = f"{name}=={package['version'].partition('+')[0]}"
    # A package that is there for an extra only (`fsspec[http]`) has no other asker.
    askers = {who: marker for who, marker in asked_by.items() if "extra ==" not in marker}
    if not askers and name not in direct:
        askers = asked_by
    if name not in direct and all(PLATFORM.search(marker) and "extra ==" not in marker for marker in askers.values()):
        line += "; " + " or ".join(f"({marker})" for marker in sorted(set(askers.values())))
    return f"{line}  # via {', '.join((['requirements.in'] if name in direct else []) + sorted(askers))}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the lock anew.")
    parser.add_argument("--upgrade", action="store_true", help="forget the versions of the present lock")
    arguments = parser.parse_args()
    python = ".".join(map(str, OLDEST))
    if sys.version_info[:2] != OLDEST:
        sys.exit(
            f"the lock is resolved with Python {python}, the oldest that smelt takes: make lock PYTHON=python{python}"
        )
    wanted, lock = ENVS / "requirements.in", ENVS / "requirements.txt"
    lines = [line.partition("#")[0].strip() for line in wanted.read_text(encoding="utf-8").splitlines()]
    direct = {normal(NAME.match(line)[0]) for line in lines if line}
    metadata = resolve(wanted, lock if lock.exists() and not arguments.upgrade else None)
    asked_by = demands(metadata)
    rows = [
        lock_line(package, direct, asked_by.get(normal(package["name"]), {}))
        for package in sorted(metadata, key=lambda each: normal(each["name"]))
        if not OF_TORCH.match(normal(package["name"]))
    ]
    lock.write_text(HEADER.format(python=python) + "\n" + "\n".join(rows) + "\n", encoding="utf-8")
    print(f"{lock.relative_to(ENVS.parent)}: {len(rows)} packages")


if __name__ == "__main__":
    main()
