"""smelt.plan.doctor: a line on everything that a run depends on, with the way out where something lacks."""

import os
import re
from collections import namedtuple
from importlib import metadata
from pathlib import Path

import pytest

from smelt.plan import doctor


def test_every_check_gives_one_line_here(capsys):
    code = doctor.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(doctor.CHECKS)
    assert all(re.match(r" +(ok|note|lacks) +\S+ +\S", line) for line in lines)
    subjects = [line.split()[1] for line in lines]
    assert {"Python", "torch", "lock", "GPUs", "compiler", "Slurm", "cores", "memory", "disk", "results"} <= set(subjects)  # fmt: skip
    assert code == (1 if any(line.split()[0] == "lacks" for line in lines) else 0)


def test_a_machine_without_programs_gets_notes_not_failures(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    for check in (doctor.gpus, doctor.slurm, doctor.git):
        assert check().verdict == doctor.POOR
    # No extension is ever built at run time.
    assert doctor.compiler().verdict == doctor.GOOD


def test_missing_torch_says_how_to_get_it(monkeypatch):
    def version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.metadata, "version", version)
    assert doctor.torch() == doctor.Finding("torch", doctor.BAD, "not installed; run: make setup")


def test_a_full_disk_and_little_memory_are_told(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Usage = namedtuple("Usage", "total used free")
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: Usage(10, 9, 10**9))
    assert doctor.disk().verdict == doctor.POOR
    assert "1.0 GB free" in doctor.disk().text
    monkeypatch.setattr(doctor.os, "sysconf", lambda name: 4096 if name == "SC_PAGE_SIZE" else 10**6)
    assert "4.1 GB; the quickstart wants 6" in doctor.memory().text


def test_a_folder_that_can_t_be_written_is_told(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert doctor.writable().verdict == doctor.GOOD
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    found = doctor.writable()
    assert found.verdict == doctor.BAD
    assert str(Path.cwd()) in found.text
    assert "--directory" in found.text


def test_a_process_that_hangs_or_fails_counts_as_absent(monkeypatch, tmp_path):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nexit 9\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert doctor.gpus().verdict == doctor.POOR
    program.write_text("#!/bin/sh\necho 'H200, 143771 MiB, 570.1'\necho 'H200, 143771 MiB, 570.1'\n")
    assert doctor.gpus() == doctor.Finding("GPUs", doctor.GOOD, "2: H200, 143771 MiB, 570.1")


@pytest.mark.parametrize("cores", [1, 2])
def test_the_cores_that_count_are_those_this_process_may_use(monkeypatch, cores):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)), raising=False)
    assert doctor.cores().verdict == (doctor.GOOD if cores == 2 else doctor.POOR)
