"""Checkpoints: whole or passed over by name, the last two kept, never mixed with those of another set-up."""

import json
import re

import pytest
import torch

from smelt.plan.errors import DataError, SmeltError
from smelt.training.checkpoint import Checkpoints
from smelt.training.world import World

ALONE = World(0, 1, torch.device("cpu"))


class File:
    """Stands where the engine does: one tensor in one file."""

    def __init__(self, zero_stage=0):
        self.zero_stage, self.tensor, self.error = zero_stage, torch.zeros(4), None

    def save(self, folder):
        torch.save(self.tensor, folder / "tensor.pt")
        if self.error:
            raise self.error

    def load(self, folder):
        self.tensor = torch.load(folder / "tensor.pt", weights_only=True)


def checkpoints(folder, engine=None, world=ALONE):
    said = []
    made = Checkpoints(folder, engine or File(), world, said.append)
    made.said = said
    return made


def write(folder, *steps):
    """A checkpoint at each of `steps`, whose tensor is full of the step."""
    made = checkpoints(folder)
    for step in steps:
        made.engine.tensor = torch.full((4,), float(step))
        made.save(step, {"step": step, "note": "n"})
    return made


def resumed(folder, **more):
    made = checkpoints(folder, **more)
    found = made.resume()
    return found, made


def test_nothing_to_resume_is_no_error(tmp_path):
    assert resumed(tmp_path / "none")[0] is None


def test_the_newest_is_taken_with_its_counters_and_random_state(tmp_path):
    torch.manual_seed(3)
    write(tmp_path, 5)
    drawn = torch.rand(3)
    write(tmp_path, 9)
    expected = torch.rand(3)
    assert not torch.equal(drawn, expected)
    found, made = resumed(tmp_path)
    assert found == (9, {"step": 9, "note": "n"})
    assert torch.equal(made.engine.tensor, torch.full((4,), 9.0))
    assert torch.equal(torch.rand(3), expected)


def test_the_last_two_are_kept(tmp_path):
    write(tmp_path, 1, 2, 30, 100)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0000000030", "0000000100"]


def damage_cut(folder):
    path = folder / "tensor.pt"
    path.write_bytes(path.read_bytes()[:-7])


def damage_flip(folder):
    path = folder / "tensor.pt"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def damage_remove(folder):
    (folder / "random-00000.pt").unlink()


def damage_unfinished(folder):
    (folder / "COMPLETE").unlink()


def damage_marker(folder):
    (folder / "COMPLETE").write_text('{"step": 20')


def damage_list(folder):
    (folder / "COMPLETE").write_text("[1, 2]")


def damage_keys(folder):
    (folder / "COMPLETE").write_text('{"files": {}}')


def damage_digest(folder):
    about = json.loads((folder / "COMPLETE").read_text())
    del about["files"]["tensor.pt"]["xxh3"]
    (folder / "COMPLETE").write_text(json.dumps(about))


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (damage_cut, r"tensor.pt has \d+ bytes instead of"),
        (damage_flip, "tensor.pt has other content"),
        (damage_remove, "random-00000.pt is missing"),
        (damage_unfinished, "COMPLETE is missing, so it was not finished"),
        (damage_marker, "COMPLETE is damaged"),
        (damage_list, "COMPLETE is damaged"),
        (damage_keys, "COMPLETE is damaged"),
        (damage_digest, "COMPLETE is damaged"),
    ],
)
def test_a_broken_checkpoint_is_named_and_the_one_before_taken(tmp_path, damage, named):
    write(tmp_path, 10, 20)
    damage(tmp_path / "0000000020")
    found, made = resumed(tmp_path)
    assert found[0] == 10
    assert len(made.said) == 1
    assert made.said[0].startswith("checkpoint of step 20 passed over: ")
    assert re.search(named, made.said[0])


def test_when_all_are_broken_training_starts_anew_and_says_why(tmp_path):
    write(tmp_path, 10, 20)
    for step in ("0000000010", "0000000020"):
        damage_cut(tmp_path / step)
    found, made = resumed(tmp_path)
    assert found is None
    assert len(made.said) == 2


def test_a_broken_one_is_cleared_away_by_newer_whole_ones(tmp_path):
    write(tmp_path, 10, 20)
    damage_unfinished(tmp_path / "0000000020")
    write(tmp_path, 30, 40)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0000000030", "0000000040"]


def test_a_save_that_fails_says_so_and_keeps_the_one_before(tmp_path):
    made = write(tmp_path, 10)
    made.engine.error = OSError(28, "No space left on device")
    with pytest.raises(DataError, match=r"0000000020.*No space left on device.*step 10 is kept.*Make room"):
        made.save(20, {})
    assert resumed(tmp_path)[0][0] == 10


def test_a_save_at_the_step_of_a_broken_one_replaces_it(tmp_path):
    made = write(tmp_path, 10)
    (tmp_path / "0000000020").mkdir()
    (tmp_path / "0000000020" / "left over").write_text("x")
    made.save(20, {})
    assert "left over" not in json.loads((tmp_path / "0000000020" / "COMPLETE").read_text())["files"]
    assert resumed(tmp_path)[0][0] == 20


def test_another_zero_stage_is_refused_with_the_way_out(tmp_path):
    write(tmp_path, 10)
    with pytest.raises(
        SmeltError, match="written by 1 processes at ZeRO stage 0, this run has 1 at stage 2: run as before"
    ):
        resumed(tmp_path, engine=File(zero_stage=2))
