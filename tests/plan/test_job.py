"""smelt.plan.job: what is done around a stage. A toy stage in processes of their own, as the workflow starts them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from small_plan import write
from smelt.plan.errors import LockedError, SmeltError
from smelt.plan.job import lock, parse_spec
from smelt.plan.manifest import FORMAT, Manifest, canonical

STAGE = '''
"""A stage that does what its settings say."""
import os, sys, time
from smelt.plan.job import Product, figure

KEEPS_STATE = {keeps_state}


def run(job):
    print("an ordinary line")
    print("a warning", file=sys.stderr)
    os.system("echo from a child")
    job.say("for the person")
    what = job.settings.get("do")
    (job.directory / "half.txt").write_text("half")
    if what == "crash":
        raise RuntimeError("the network is down")
    if what == "exit":
        os._exit(9)
    if what == "wait":
        if KEEPS_STATE:
            job.state.joinpath("saved").write_text("x")
        print("waiting", file=job.terminal, flush=True)
        for _ in range(600):
            time.sleep(0.05)
            if job.stopping:
                job.state.joinpath("saved").write_text("more")
                job.stop("saved at step 7")
    if what == "state":
        (job.state / "seen").open("a").write("x")
    (job.directory / "a.txt").write_text("product " + str(job.settings.get("value", "")))
    (job.directory / "half.txt").unlink()
    if what == "lies":
        return Product(["absent.txt"])
    if what == "nan":
        return Product(["a.txt"], facts={{"loss": float("nan")}})
    return Product(["a.txt"], facts={{"figures": [figure("length", "train", 3, "characters")]}}, measurements={{"seconds_a_row": 0.5}})
'''
RUNNER = """
import sys
import smelt
from smelt import cli
from smelt.plan import identity
from pathlib import Path
smelt.__path__.append(sys.argv[1] + "/smelt")
identity.SOURCE = Path(sys.argv[1])
cli.STAGES["toy"] = "for tests"
sys.exit(cli.main(["toy", *sys.argv[2:]]))
"""


class Toy:
    """Starts the toy stage for one node."""

    def __init__(self, root: Path, keeps_state: bool) -> None:
        self.root = root
        write(root / "code" / "smelt" / "toy", "", "__init__.py")
        write(root / "code" / "smelt" / "toy", STAGE.format(keeps_state=keeps_state), "stage.py")
        write(root, RUNNER, "runner.py")
        self.node = root / "results" / "toy" / "a-0123456789"
        self.log = self.node / "log.txt"

    def spec(self, settings: dict[str, Any], upstream: dict[str, Any]) -> str:
        return canonical({"format": FORMAT, "stage": "toy", "settings": settings, "upstream": upstream, "code": "c"})

    def start(
        self, upstream: dict[str, Any] | None = None, environment: dict[str, str] | None = None, **settings: Any
    ) -> subprocess.Popen[str]:
        command = [sys.executable, str(self.root / "runner.py"), str(self.root / "code")]
        command += ["--spec", self.spec(settings, upstream or {}), "--out", str(self.node / "manifest.json"), "--log", str(self.log)]  # fmt: skip
        environment = {**os.environ, "SMELT_LOCK_WAIT": "0", **(environment or {})}
        environment = {key: value for key, value in environment.items() if value != ""}
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    def run(self, **how: Any) -> tuple[int, str]:
        """(exit code, what the terminal showed)."""
        process = self.start(**how)
        out, errors = process.communicate(timeout=60)
        return process.returncode, out + errors

    def waiting(self, **how: Any) -> subprocess.Popen[str]:
        """Started, and in the midst of its work."""
        process = self.start(do="wait", **how)
        for line in process.stderr:
            if line.startswith("waiting"):
                return process
        raise AssertionError(f"ended early: {process.wait()}")


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    return Toy(tmp_path, keeps_state=False)


@pytest.fixture
def keeper(tmp_path: Path) -> Toy:
    return Toy(tmp_path, keeps_state=True)


def test_a_stage_leaves_manifest_provenance_and_log(toy):
    code, shown = toy.run(value=1)
    assert (code, shown) == (0, "[toy a-0123456789] for the person\n")
    found = Manifest.read(toy.node / "manifest.json")
    assert found.problems(content=True) == []
    assert found.data == {
        "format": FORMAT,
        "stage": "toy",
        "node": "a-0123456789",
        "settings": {"value": 1},
        "upstream": {},
        "files": {"a.txt": found.files["a.txt"]},
        "facts": {"figures": [{"metric": "length", "split": "train", "value": 3, "unit": "characters"}]},
    }
    assert found.provenance["measurements"] == {"seconds_a_row": 0.5}
    assert found.provenance["code"] == {"smelt.toy": found.provenance["code"]["smelt.toy"], "smelt.toy.stage": found.provenance["code"]["smelt.toy.stage"]}  # fmt: skip
    assert {"an ordinary line", "a warning", "from a child", "for the person"} <= set(toy.log.read_text().splitlines())
    assert {path.name for path in toy.node.iterdir()} == {"manifest.json", "provenance.json", "a.txt", "log.txt", ".lock"}  # fmt: skip


def test_two_runs_give_the_same_manifest_to_the_byte(toy):
    toy.run()
    first = (toy.node / "manifest.json").read_bytes()
    toy.run()
    assert (toy.node / "manifest.json").read_bytes() == first


def test_a_manifest_tells_no_time_host_or_path(toy):
    toy.run()
    text = (toy.node / "manifest.json").read_text()
    assert str(toy.root) not in text
    assert os.uname().nodename not in text


@pytest.mark.parametrize(("do", "told"), [("crash", "the network is down"), ("lies", "absent.txt"), ("nan", "JSON")])
def test_a_crash_leaves_no_manifest_one_line_and_the_traceback_in_the_log(toy, do, told):
    toy.run()
    code, shown = toy.run(do=do)
    assert code != 0
    assert not (toy.node / "manifest.json").exists()
    lines = [line for line in shown.splitlines() if "for the person" not in line]
    assert len(lines) == 1
    assert told in lines[0]
    assert str(toy.log) in lines[0]
    assert "Traceback" in toy.log.read_text()


def test_a_process_that_dies_at_once_leaves_no_manifest_and_frees_the_lock(toy):
    assert toy.run(do="exit")[0] == 9
    assert not (toy.node / "manifest.json").exists()
    assert toy.run()[0] == 0
    assert not (toy.node / "half.txt").exists()


def test_what_an_earlier_attempt_left_goes_but_state_log_and_benchmark_stay(keeper):
    for name in ("left.txt", "folder/deep.txt", "state/FINGERPRINT", "state.stale-1/x", "benchmark.jsonl", "log.txt"):
        write((keeper.node / name).parent, "old\n", Path(name).name)
    (keeper.node / "link").symlink_to(keeper.root)
    assert keeper.run()[0] == 0
    assert {path.name for path in keeper.node.iterdir()} == {
        "manifest.json",
        "provenance.json",
        "a.txt",
        "log.txt",
        ".lock",
        "benchmark.jsonl",
        "state",
        "state.stale-1",
    }
    assert keeper.root.is_dir()
    assert keeper.log.read_text().startswith("old\n")


def test_state_goes_on_with_the_same_fingerprint_and_is_moved_aside_with_another(keeper):
    keeper.run(do="state", value=1)
    keeper.run(do="state", value=1)
    assert (keeper.node / "state" / "seen").read_text() == "xx"
    code, shown = keeper.run(do="state", value=2)
    assert code == 0
    assert "state/ belongs to other settings, code or data: moved to state.stale-1" in shown
    assert (keeper.node / "state" / "seen").read_text() == "x"
    assert (keeper.node / "state.stale-1" / "seen").read_text() == "xx"
    keeper.run(do="state", value=3)
    assert (keeper.node / "state.stale-2" / "seen").read_text() == "x"


def test_state_of_other_data_is_moved_aside_too(keeper):
    above = keeper.root / "results" / "corpus" / "en-0123456789"
    content = {"format": FORMAT, "stage": "corpus", "node": above.name, "settings": {}, "upstream": {}, "files": {}}
    write(above, json.dumps({**content, "facts": {}}), "manifest.json")
    upstream = {"corpus": f"corpus/{above.name}"}
    keeper.run(do="state", upstream=upstream)
    write(above, json.dumps({**content, "facts": {"documents": 2}}), "manifest.json")
    keeper.run(do="state", upstream=upstream)
    assert (keeper.node / "state.stale-1" / "seen").read_text() == "x"


def test_an_upstream_file_cut_off_is_named_and_what_was_made_before_stays(toy):
    assert toy.run()[0] == 0
    kept = {name: (toy.node / name).read_bytes() for name in ("manifest.json", "provenance.json", "a.txt")}
    above = toy.root / "results" / "corpus" / "en-0123456789"
    write(above, "abc", "a.txt")
    content = {"format": FORMAT, "stage": "corpus", "node": above.name, "settings": {}, "upstream": {}, "facts": {}}
    write(above, json.dumps({**content, "files": {"a.txt": {"size": 4, "sha256": "x"}}}), "manifest.json")
    code, shown = toy.run(upstream={"corpus": f"corpus/{above.name}"})
    assert code == 1
    assert f"smelt: {above}/a.txt: 3 bytes, manifest.json says 4" in shown
    assert {name: (toy.node / name).read_bytes() for name in kept} == kept


def test_a_second_process_is_refused_with_host_and_pid_of_the_first(toy):
    first = toy.waiting()
    try:
        code, shown = toy.run()
        assert code == 73
        assert f"in use by host {os.uname().nodename}, pid {first.pid}; wait for it or end it, then run again" in shown
    finally:
        first.kill()
        first.wait()
    assert toy.run()[0] == 0


def test_a_second_process_waits_for_the_first_if_it_may(toy):
    first = toy.waiting()
    second = toy.start(environment={"SMELT_LOCK_WAIT": "60"})
    assert "waiting up to 60 s" in second.stderr.readline()
    first.kill()
    first.wait()
    assert second.wait(timeout=60) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGURG])
def test_a_stop_signal_lets_a_stage_that_keeps_state_save_and_leave(keeper, number):
    process = keeper.waiting()
    process.send_signal(number)
    shown = process.stderr.read()
    assert process.wait(timeout=30) == 75, shown + keeper.log.read_text()
    assert f"{number.name}: finishing the step, then saving" in shown
    assert f"stopped by {number.name}; saved at step 7. Run the same command again to go on." in shown
    assert (keeper.node / "state" / "saved").read_text() == "more"
    assert not (keeper.node / "manifest.json").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_signal_ends_a_stage_without_state_at_once_and_in_one_line(toy, number):
    process = toy.waiting()
    process.send_signal(number)
    shown = process.stderr.read()
    assert process.wait(timeout=30) == 75
    assert shown.splitlines() == [f"smelt: toy a-0123456789: stopped by {number.name}"]
    assert not (toy.node / "manifest.json").exists()


def test_the_death_of_the_parent_ends_the_stage_after_a_save(keeper, tmp_path):
    """A shell starts the stage and is killed, as Snakemake may be."""
    command = [sys.executable, str(keeper.root / "runner.py"), str(keeper.root / "code")]
    command += ["--spec", keeper.spec({"do": "wait"}, {}), "--out", str(keeper.node / "manifest.json"), "--log", str(keeper.log)]  # fmt: skip
    script = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    parent = subprocess.Popen(
        [sys.executable, "-c", script, *command],
        env={**os.environ, "SMELT_WATCH_PARENT": "elsewhere - 1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in parent.stderr:
        if line.startswith("waiting"):
            break
    parent.kill()
    parent.wait()
    saved = keeper.node / "state" / "saved"
    deadline = time.monotonic() + 20
    while saved.read_text() != "more" and time.monotonic() < deadline:
        time.sleep(0.1)
    assert saved.read_text() == "more"
    with lock(keeper.node / ".lock", wait=20):
        assert not (keeper.node / "manifest.json").exists()


def test_an_orphan_that_begins_after_snakemake_died_does_nothing(toy):
    gone = subprocess.Popen([sys.executable, "-c", "pass"])
    gone.wait()
    from smelt.plan.job import this_process

    where = this_process().rpartition(" ")[0]
    toy.run()
    before = (toy.node / "manifest.json").read_bytes()
    code, shown = toy.run(environment={"SMELT_WATCH_PARENT": f"{where} {gone.pid}"})
    assert code == 75
    assert "the snakemake that started this is gone; nothing done" in shown
    assert (toy.node / "manifest.json").read_bytes() == before


def test_the_lock_is_free_after_use_and_held_within(tmp_path):
    path = tmp_path / ".lock"
    with lock(path, wait=0):
        assert re.fullmatch(r"host \S+, pid \d+", path.read_text())
        with pytest.raises(LockedError, match=f"in use by host .*, pid {os.getpid()}"), lock(path, wait=0):
            pass
    with lock(path, wait=0):
        pass


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"stage": "toy"}', '{"stage": "other", "settings": {}, "upstream": {}, "code": ""}'])  # fmt: skip
def test_a_spec_that_is_none_is_told(text):
    with pytest.raises(SmeltError, match=r"--spec: not .*it comes from the workflow"):
        parse_spec("toy", text)
