"""Time training steps of the converted model: each precision with each method, on text of the training split.

Cells are timed in turn, round after round, so that a slow minute of the machine falls on all alike; the median over the
rounds is reported. Each cell has its own process, alone at work while it is timed, so that its peak memory is its own.
Everything measured goes to provenance (`measurements`): a repetition measures other numbers.
"""

import contextlib
import json
import multiprocessing
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from smelt.benchmark.work import Cell, Failure, Work
from smelt.data.tokens import TokenStream
from smelt.plan.errors import DataError, SmeltError
from smelt.plan.job import Job, Product, figure
from smelt.plan.manifest import Manifest
from smelt.plan.progress import Progress
from smelt.plan.settings.benchmark import Benchmark
from smelt.training.compute import set_environment

CELL = "smelt.benchmark.cell"
CPU = Path("/proc/cpuinfo")


def run(job: Job) -> Product:
    settings = Benchmark.model_validate(job.settings)
    gpus = min(set_environment(settings.cpu_threads, job.options.get("gpus", 0), job.say), 1)
    if "fp16" in settings.precisions and not gpus:
        raise DataError("benchmark: precision fp16 needs a GPU; leave it out of `precisions` on a CPU")
    tokens = sequences(job.input("convert"), job.input("shards"), settings)
    table = cells(settings, gpus, bf16_in_hardware())
    seconds: list[list[float]] = [[] for _ in table]
    with _processes(job, settings, table, tokens, gpus) as ask:
        with Progress(job, settings.repeats * len(table), "timings") as progress:
            for _ in range(settings.repeats):
                for number in range(len(table)):
                    seconds[number].append(ask(number, "round"))
                    progress.update(1)
        about = [ask(number, "about") for number in range(len(table))]
    rows = _rows(settings, table, tokens.shape[1], seconds, about)
    for row in rows:
        speed = f"{row['precision']} {row['method']}: {row['tokens_per_second']:,.0f} tokens/s"
        job.say(f"{speed}, {row['ratio']:.2f} × the first row" + (f" ({row['note']})" if row["note"] else ""))
    facts = {
        "cells": [{"precision": cell.precision, "method": cell.method} for cell in table],
        "sequence_length": tokens.shape[1],
    }
    return Product([], facts, {"rows": rows, "device": about[0]["device"], "figures": _figures(rows)})


def sequences(convert: Manifest, shards: Manifest, settings: Benchmark) -> np.ndarray:
    """[batch, length] int64: text of the training split, from places that the seed decides."""
    config = json.loads(convert.file("hf/config.json").read_text(encoding="utf-8"))
    most = config.get("max_position_embeddings", config.get("n_positions"))
    length = settings.sequence_length or most
    if length > most:
        raise DataError(f"benchmark: sequence_length is {length}, but the network takes at most {most} tokens")
    made_with = str(convert.upstream["tokenizer"]).removeprefix("tokenizer/")
    found = TokenStream(shards, "train", tokenizer=made_with).sequences(length)
    return found.__getitems__(np.random.default_rng(settings.seed).integers(len(found), size=settings.batch_size))


def cells(settings: Benchmark, gpus: int, native: bool) -> list[Cell]:
    """Precisions by methods. Half precision in software gets a smaller batch, and says so."""
    table = []
    for precision in settings.precisions:
        slow = precision == "bf16" and not gpus and not native
        batch = min(settings.slow_batch_size, settings.batch_size) if slow else settings.batch_size
        note = f"in software on this CPU, so only {batch} sequence(s) a step" if slow else ""
        table += [Cell(precision, method, batch, note) for method in settings.methods]
    return table


def bf16_in_hardware() -> bool:
    """Whether the CPU multiplies bfloat16 itself (AVX-512 BF16 or AMX on x86, BF16 on ARM), as Linux tells."""
    flags = set(CPU.read_text().split()) if CPU.exists() else set()
    return bool(flags & {"avx512_bf16", "amx_bf16", "bf16"})


@contextlib.contextmanager
def _processes(
    job: Job, settings: Benchmark, table: list[Cell], tokens: np.ndarray, gpus: int
) -> Iterator[Callable[[int, str], Any]]:
    """One process a cell, all forked from a server that has torch; yields `ask(number, question)`, whose answer it waits for."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([CELL])
    with contextlib.ExitStack() as ends:
        connections = []
        for cell in table:
            ours, theirs = context.Pipe()
            work = Work(
                cell,
                job.input("convert").path,
                tokens,
                settings.steps,
                settings.lora,
                settings.seed,
                settings.cpu_threads,
                gpus,
            )
            process = context.Process(target=_serve, args=(theirs, work), daemon=True)
            process.start()
            theirs.close()
            ends.callback(process.join, 10)
            ends.callback(process.terminate)
            connections.append(ends.enter_context(contextlib.closing(ours)))

        def ask(number: int, question: str) -> Any:
            connections[number].send(question)
            try:
                answer = connections[number].recv()
            except EOFError:
                answer = Failure("its process was ended from outside, most likely for want of memory; lower batch_size")
            if isinstance(answer, Failure):
                cell = table[number]
                raise SmeltError(f"benchmark: {cell.precision} {cell.method}: {answer.text} (log.txt has more)")
            return answer

        yield ask


def _serve(connection: Any, work: Work) -> None:
    from smelt.benchmark.cell import serve

    serve(connection, work)


def _rows(
    settings: Benchmark, table: list[Cell], length: int, seconds: list[list[float]], about: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for cell, times, told in zip(table, seconds, about, strict=True):
        batch = median(times) / settings.steps
        speed = cell.batch * length / batch
        rows.append(
            {
                "precision": cell.precision,
                "method": cell.method,
                "tokens_per_second": round(speed, 1),
                "seconds_per_batch": round(batch, 5),
                "peak_memory_mb": told["peak_memory_mb"],
                "ratio": round(speed / rows[0]["tokens_per_second"], 4) if rows else 1.0,
                "repeats": settings.repeats,
                "batch": cell.batch,
                "sequence_length": length,
                "trainable_parameters": told["trainable_parameters"],
                "note": cell.note,
            }
        )
    return rows


def _figures(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        figure(f"training_speed_{row['precision']}_{row['method']}", "train", row["tokens_per_second"], "tokens/s")
        for row in rows
    ]
