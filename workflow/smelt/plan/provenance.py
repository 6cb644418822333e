"""When, where and with what a node was made: beside the manifest, so that the manifest holds content only."""

import functools
import os
import platform
import socket
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from smelt.plan.identity import code_modules
from smelt.plan.manifest import sha256_file

ROOT = Path(__file__).resolve().parents[3]
"""The checkout: the folder of Snakefile, workflow/, config/ and envs/."""

PACKAGES = (
    "accelerate", "datasets", "deepspeed", "lmdb", "numpy", "peft", "scikit-learn", "sentencepiece", "snakemake",
    "tiktoken", "tokenizers", "torch", "transformers",
)  # fmt: skip


@functools.lru_cache
def commit() -> dict[str, Any]:
    """The checkout's commit, and whether files that git tracks differ from it; empty outside a git checkout."""
    try:
        head = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
        status = subprocess.run(
            ["git", "-C", ROOT, "status", "--porcelain", "--untracked-files=no"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return {}
    return {"commit": head.stdout.strip(), "modified": bool(status.stdout.strip())}


def packages() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def devices() -> list[str]:
    """Names of the GPUs in use; asks torch only if the stage imported it."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]


def collect(
    spec: dict[str, Any], inputs: dict[str, str], started: float, threads: int, options: dict[str, Any]
) -> dict[str, Any]:
    """`spec` and `inputs` (`stage/id` → sha256 of the manifest) prove what the node is of; `code` names the modules behind its digest."""
    lock = ROOT / "envs" / "requirements.txt"
    return {
        "spec": spec,
        "inputs": inputs,
        "code": code_modules(spec["stage"]),
        **commit(),
        "lock": sha256_file(lock) if lock.exists() else None,
        "packages": packages(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "host": socket.gethostname(),
        "cpus": os.cpu_count(),
        "devices": devices(),
        "threads": threads,
        "options": options,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "seconds": round(time.time() - started, 3),
    }
