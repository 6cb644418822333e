"""`smelt doctor`: what this machine offers and lacks for smelt, a line each, with the way out."""

import glob
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

GOOD, POOR, BAD = "ok", "note", "lacks"


@dataclass(frozen=True)
class Finding:
    subject: str
    verdict: str
    """`ok`, `note` (works without) or `lacks` (does not work)."""
    text: str


def python() -> Finding:
    return Finding("Python", GOOD, f"{platform.python_version()} at {sys.executable}")


def torch() -> Finding:
    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return Finding("torch", BAD, "not installed; run: make setup")
    if "+cpu" in version and glob.glob("/dev/nvidia[0-9]*"):
        return Finding(
            "torch", POOR, f"{version} can't use the GPUs here; install torch=={version.partition('+')[0]} with CUDA"
        )
    return Finding("torch", GOOD, f"{version} ({'CPU' if '+cpu' in version else 'with what GPUs it was built for'})")


def packages() -> Finding:
    """Whether what is installed is what the lock says."""
    lock = Path(__file__).resolve().parents[3] / "envs" / "requirements.txt"
    if not lock.exists():
        return Finding("lock", POOR, f"no {lock.name} beside this installation; versions can't be compared")
    other = []
    for line in lock.read_text().splitlines():
        name, _, wanted = line.partition("#")[0].partition(";")[0].strip().partition("==")
        if not wanted or line.startswith("#"):
            continue
        try:
            installed = metadata.version(name).partition("+")[0]
        except metadata.PackageNotFoundError:
            installed = "missing"
        if installed != wanted and not (installed == "missing" and ";" in line):
            other.append(f"{name} {installed} (lock {wanted})")
    if other:
        return Finding(
            "lock", POOR, f"{len(other)} packages differ from the lock: {', '.join(other[:5])}; run: make setup"
        )
    return Finding("lock", GOOD, "every package has the version of envs/requirements.txt")


def gpus() -> Finding:
    query = _output(["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"])
    if query is None:
        return Finding(
            "GPUs", POOR, "none seen (no nvidia-smi, or it fails); everything runs on the CPU, slowly for larger models"
        )
    lines = [line.strip() for line in query.splitlines() if line.strip()]
    return Finding("GPUs", GOOD, f"{len(lines)}: {'; '.join(dict.fromkeys(lines))}")


def compiler() -> Finding:
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if found:
        return Finding("compiler", GOOD, f"{found} (not needed)")
    return Finding("compiler", GOOD, "none, and none is needed: no extension is built at run time")


def slurm() -> Finding:
    if not shutil.which("sbatch"):
        return Finding("Slurm", POOR, "no sbatch on PATH; use --profile profiles/local, or log in to the cluster")
    version = _output(["sbatch", "--version"])
    return Finding("Slurm", GOOD, (version or "sbatch found, but it does not answer").strip())


def git() -> Finding:
    if not shutil.which("git"):
        return Finding(
            "git", POOR, "not found; provenance then names no commit, and archives take the whole package folder"
        )
    return Finding("git", GOOD, (_output(["git", "--version"]) or "").strip())


def cores() -> Finding:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    verdict = GOOD if usable >= 2 else POOR
    return Finding("cores", verdict, f"{usable} usable" + ("" if usable >= 2 else "; the quickstart is made for two"))


def memory() -> Finding:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    if total < 6:
        return Finding("memory", POOR, f"{total:.1f} GB; the quickstart wants 6: run it with --cores 1")
    return Finding("memory", GOOD, f"{total:.1f} GB")


def disk() -> Finding:
    free = shutil.disk_usage(Path.cwd()).free / 1e9
    if free < 5:
        return Finding(
            "disk", POOR, f"{free:.1f} GB free here; use another folder with --directory, or `smelt gc --delete`"
        )
    return Finding("disk", GOOD, f"{free:.1f} GB free here")


def writable() -> Finding:
    results = Path("results") if Path("results").exists() else Path.cwd()
    if os.access(results, os.W_OK):
        return Finding("results", GOOD, f"{results.absolute()} can be written")
    return Finding("results", BAD, f"{results.absolute()} can't be written; use another folder with --directory")


CHECKS: tuple[Callable[[], Finding], ...] = (
    python,
    torch,
    packages,
    gpus,
    compiler,
    slurm,
    git,
    cores,
    memory,
    disk,
    writable,
)


def _output(command: list[str]) -> str | None:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None


def main() -> int:
    """Exit code 1 if something that smelt can't do without is lacking."""
    found = [check() for check in CHECKS]
    for each in found:
        print(f"{each.verdict:>5}  {each.subject:<9} {each.text}")
    return 1 if any(each.verdict == BAD for each in found) else 0
