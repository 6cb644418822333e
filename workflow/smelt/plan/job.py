"""What a running stage is given, and what is done around it.

    smelt <stage> --spec SPEC --out results/<stage>/<id>/manifest.json [--log FILE] [--threads N] [--gpus N] …

`execute` locks the node's folder, clears what an earlier attempt left there (never `state/`), checks the upstream files,
calls the stage's `run(job)`, and writes provenance and, last of all, the manifest. A stage sees only the `Job`.
"""

import contextlib
import fcntl
import importlib
import json
import os
import shutil
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

from smelt.plan import devices, provenance
from smelt.plan.errors import DataError, Interrupted, LockedError, SmeltError, UnexpectedError, storage_error
from smelt.plan.manifest import (
    FORMAT,
    Manifest,
    canonical,
    listing,
    sha256_file,
    sha256_text,
    to_json,
    write_atomically,
)

KEPT = ("state", ".lock", "log.txt", "benchmark.jsonl")
"""Names in a node's folder that a new attempt leaves alone: training state (also `state.stale-*`), and what Snakemake holds open."""

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGURG)
"""Finish the step, save, exit 75. SIGURG is the one that bash and Snakemake ignore by default, so that Slurm can send it to a whole job step."""


@dataclass(frozen=True)
class Product:
    """What `run` returns. Equal work must give equal `files` and `facts`; whatever is timed goes into `measurements`."""

    files: list[str]
    """Paths relative to the node's folder, all that is kept of it (but for `state/`)."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Counts and figures for downstream stages and people: JSON, finite numbers. `figures` is a list of
    `{"metric", "split", "value", "unit"}` (see `figure`), which the report and summary.json collect."""
    measurements: dict[str, Any] = field(default_factory=dict)
    """Timings, memory, throughput; may hold `figures` as well. Kept in provenance.json."""


def figure(metric: str, split: str, value: float, unit: str = "", **more: Any) -> dict[str, Any]:
    """One figure of `facts["figures"]` or `measurements["figures"]`; `more` may name e.g. the `reference` it belongs to."""
    return {"metric": metric, "split": split, "value": value, "unit": unit, **more}


@dataclass
class Job:
    """One attempt at one node."""

    spec: dict[str, Any]
    directory: Path
    """The node's folder, `results/<stage>/<id>`: everything that the stage makes goes here."""
    threads: int = 1
    """Cores granted by the scheduler: for speed only (workers, downloads). Arithmetic takes its thread count from the settings."""
    options: dict[str, Any] = field(default_factory=dict)
    """How to run, never what to compute: `gpus`, `nodes`, `micro_batch`, `zero_stage`, `save_minutes`, `budget_minutes`."""
    terminal: TextIO = field(default_factory=lambda: sys.stderr)
    """Where a person looks; `print` goes to the log."""
    stop_signal: int | None = None

    @property
    def stage(self) -> str:
        return self.spec["stage"]

    @property
    def id(self) -> str:
        return self.directory.name

    @property
    def settings(self) -> dict[str, Any]:
        """As in the spec; a stage makes its settings class of it: `Tokenizer.model_validate(job.settings)`."""
        return self.spec["settings"]

    @property
    def results(self) -> Path:
        return self.directory.parent.parent

    @cached_property
    def inputs(self) -> dict[str, list[Manifest]]:
        """Role → the manifests of that role."""
        return {
            role: [
                Manifest.read(self.results / ref / "manifest.json")
                for ref in ([refs] if isinstance(refs, str) else refs)
            ]
            for role, refs in self.spec["upstream"].items()
        }

    def input(self, role: str) -> Manifest:
        """The one manifest of a role. Raises KeyError for a role that the plan did not connect."""
        (manifest,) = self.inputs[role]
        return manifest

    @cached_property
    def input_digests(self) -> dict[str, str]:
        """`stage/id` → sha256 of the upstream manifest: with the spec, all that determines the product."""
        return {f"{m.stage}/{m.id}": sha256_file(m.path) for ms in self.inputs.values() for m in ms}

    @cached_property
    def fingerprint(self) -> str:
        """Of the spec and of the upstream contents; what `state/` belongs to."""
        return sha256_text(canonical([self.spec, self.input_digests]))

    @cached_property
    def state(self) -> Path:
        """`state/`, which survives kills and retries. State of other settings, code or data is moved aside, never mixed."""
        path = self.directory / "state"
        tag = path / "FINGERPRINT"
        if path.exists() and (not tag.exists() or tag.read_text() != self.fingerprint):
            number = 1
            while (aside := path.with_name(f"state.stale-{number}")).exists():
                number += 1
            path.rename(aside)
            self.say(f"state/ belongs to other settings, code or data: moved to {aside.name}")
        if not tag.exists():
            write_atomically(tag, self.fingerprint)
        return path

    @property
    def stopping(self) -> bool:
        """A signal asked to stop: save, then call `stop()`. Stages that keep no state need not look: they are ended at once."""
        return self.stop_signal is not None

    def check_stop(self) -> None:
        """Leave if asked to, where there is nothing to save. Raises Interrupted."""
        if self.stopping:
            self.stop("nothing was begun")

    def stop(self, saved: str) -> None:
        """Leave with exit code 75 after a save. Raises Interrupted."""
        cause = signal.Signals(self.stop_signal).name if self.stop_signal else "the time budget"
        raise Interrupted(f"{self.stage} {self.id}: stopped by {cause}; {saved}. Run the same command again to go on.")

    def say(self, text: str) -> None:
        """A line for the person at the terminal, and for the log."""
        print(text, flush=True)
        if self.terminal is not sys.stderr and self.terminal is not sys.stdout:
            print(f"[{self.stage} {self.id}] {text}", file=self.terminal, flush=True)


def execute(
    stage: str,
    spec_text: str,
    out: Path,
    log: Path | None = None,
    threads: int = 1,
    options: dict[str, Any] | None = None,
) -> None:
    """Run one stage for one node. Raises SmeltError with one clear message; on any error no manifest is left."""
    spec = parse_spec(stage, spec_text)
    directory = out.absolute().parent
    directory.mkdir(parents=True, exist_ok=True)
    module = importlib.import_module(f"smelt.{stage}.stage")
    if getattr(module, "DISTRIBUTED", False) and int(os.environ.get("RANK", 0)) > 0:
        # One of several processes (torchrun): it takes part, the first one locks, writes and reports.
        with _output_to(log) as terminal:
            follower = Job(spec, directory, threads, options or {}, terminal)
            with _signals(follower, keeps_state=True):
                module.run(follower)
        return
    with lock(directory / ".lock"), _output_to(log) as terminal:
        snakemake = os.environ.get("SMELT_WATCH_PARENT")
        if snakemake and not _may_live(snakemake):
            # Its successor may have finished this node while we waited for the lock.
            raise Interrupted(f"{stage} {directory.name}: the snakemake that started this is gone; nothing done")
        job = Job(spec, directory, threads, options or {}, terminal)
        for manifests in job.inputs.values():
            for manifest in manifests:
                if problems := manifest.problems():
                    raise DataError(problems[0])
        _clear(directory)
        started = time.time()
        with _signals(job, keeps_state=getattr(module, "KEEPS_STATE", False)):
            with devices.taken(job.options.get("gpus", 0), job.say, job.check_stop):
                product: Product = module.run(job)
            content = to_json(
                {
                    "format": FORMAT,
                    "stage": stage,
                    "node": job.id,
                    "settings": spec["settings"],
                    "upstream": spec["upstream"],
                    "files": listing(directory, product.files),
                    "facts": product.facts,
                }
            )
            how = provenance.collect(job.spec, job.input_digests, started, job.threads, job.options)
            how |= {"manifest": sha256_text(content), "measurements": product.measurements}
            write_atomically(directory / "provenance.json", to_json(how))
            write_atomically(out, content)


def parse_spec(stage: str, text: str) -> dict[str, Any]:
    try:
        spec = json.loads(text)
    except json.JSONDecodeError as error:
        raise SmeltError(
            f"--spec: not JSON ({error}): it comes from the workflow; `snakemake -n -p` prints it"
        ) from None
    missing = {"stage", "settings", "upstream", "code"} - set(spec) if isinstance(spec, dict) else {"everything"}
    if missing or spec["stage"] != stage:
        raise SmeltError(
            f"--spec: not a spec of stage {stage!r} ({', '.join(sorted(missing)) or spec['stage']!r}): it comes from the workflow"
        )
    return spec


def _clear(directory: Path) -> None:
    """Remove what an earlier attempt left: a node's folder holds what its manifest lists and nothing else."""
    for path in directory.iterdir():
        if path.name in KEPT or path.name.startswith("state.stale-"):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


@contextlib.contextmanager
def lock(path: Path, wait: float | None = None) -> Iterator[None]:
    """Exclusive lock, freed by the kernel when the holder ends, however it ends.

    Waits up to `wait` seconds (default: SMELT_LOCK_WAIT, 120), since the orphan of a killed run saves and leaves within that.
    Raises LockedError naming the holder's host and pid.
    """
    if wait is None:
        given = os.environ.get("SMELT_LOCK_WAIT", "120")
        if not given.replace(".", "", 1).isdigit():
            raise SmeltError(f"SMELT_LOCK_WAIT={given!r}: not a number of seconds; set one, or unset it")
        wait = float(given)
    with path.open("a+") as file:
        deadline, announced = time.monotonic() + wait, False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                file.seek(0)
                holder = file.read().strip() or "unknown"
                if time.monotonic() >= deadline:
                    raise LockedError(
                        f"{path.parent}: in use by {holder}; wait for it or end it, then run again"
                    ) from None
                if not announced:
                    print(f"{path.parent}: in use by {holder}; waiting up to {wait:.0f} s", file=sys.stderr, flush=True)
                    announced = True
                time.sleep(0.2)
        file.truncate(0)
        file.write(f"host {socket.gethostname()}, pid {os.getpid()}")
        file.flush()
        yield


@contextlib.contextmanager
def _signals(job: Job, keeps_state: bool) -> Iterator[None]:
    """Turn the stop signals into `job.stopping` for a stage that saves, else into an immediate, clean end.

    Under Snakemake (SMELT_WATCH_PARENT) its death counts as SIGTERM, so that no orphan writes beside a successor.
    """

    def request(number: int, _frame: object) -> None:
        first = job.stop_signal is None
        job.stop_signal = number
        if not keeps_state:
            raise Interrupted(f"{job.stage} {job.id}: stopped by {signal.Signals(number).name}")
        if first:
            _say_in_handler(job, f"{signal.Signals(number).name}: finishing the step, then saving")

    before = {number: signal.signal(number, request) for number in STOP_SIGNALS}
    if snakemake := os.environ.get("SMELT_WATCH_PARENT"):
        threading.Thread(target=_watch, args=(os.getppid(), snakemake), daemon=True).start()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say_in_handler(job: Job, text: str) -> None:
    """`job.say` past the buffers: a print that the signal interrupted may hold them, and they refuse to be entered twice."""
    for stream, line in ((sys.stdout, text), (job.terminal, f"[{job.stage} {job.id}] {text}")):
        if stream is not sys.stderr:
            with contextlib.suppress(
                OSError
            ):  # no descriptor, or a terminal that is gone: the signal counts all the same
                os.write(stream.fileno(), f"{line}\n".encode())


def this_process() -> str:
    """Host, pid namespace (where there are such) and pid: what tells a process apart from those of other machines and containers."""
    try:
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        space = "-"
    return f"{socket.gethostname()} {space} {os.getpid()}"


def _watch(parent: int, snakemake: str) -> None:
    """End this process when its parent does. Snakemake may have died before this thread began, so it is looked for as well."""
    while os.getppid() == parent and _may_live(snakemake):
        time.sleep(0.5)
    while True:
        os.kill(os.getpid(), signal.SIGTERM)
        # Again, should code of others have swallowed the exception.
        time.sleep(5)


def _may_live(process: str) -> bool:
    """False if `process` (see `this_process`) is of this machine and gone."""
    where, _, pid = process.rpartition(" ")
    if where != this_process().rpartition(" ")[0]:
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _unexpected(error: Exception, log: Path) -> UnexpectedError:
    return UnexpectedError(f"{type(error).__name__}: {error}; the traceback is in {log}")


@contextlib.contextmanager
def _output_to(log: Path | None) -> Iterator[TextIO]:
    """Send stdout and stderr of this process and of its children to `log`; yield the terminal that was there before."""
    if log is None:
        yield sys.stderr
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    with log.open("ab") as file, os.fdopen(os.dup(saved[1]), "w", buffering=1) as terminal:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            yield terminal
        except SmeltError as error:
            print(f"smelt: {error}")
            raise
        except OSError as error:
            traceback.print_exc()
            raise storage_error(error) or _unexpected(error, log) from error
        except Exception as error:
            # The log is where one looks for it; a person at the terminal gets the line and the way there.
            traceback.print_exc()
            raise _unexpected(error, log) from error
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os.dup2(saved[0], 1)
            os.dup2(saved[1], 2)
            os.close(saved[0])
            os.close(saved[1])
