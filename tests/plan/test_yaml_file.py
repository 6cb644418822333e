"""smelt.plan.yaml_file: what is in the file, with lines, or one line that says why not."""

from pathlib import Path

import pytest

from smelt.plan.errors import ConfigError
from smelt.plan.yaml_file import MOST_VALUES, dotted, read


def problem(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        read(path)
    return "\n".join(caught.value.problems)


def text(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "file.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("3e-4", 0.0003),  # PyYAML follows YAML 1.1, where this is text
        ("1E5", 100000.0),
        ("-2.5e+3", -2500.0),
        ("0.1", 0.1),
        ("12", 12),
        ("1_000", 1000),
        ("2026-01-31", "2026-01-31"),  # a date would have no JSON form
        ("'3e-4'", "3e-4"),
        ("e5", "e5"),
        ("~", None),
    ],
)
def test_a_value_is_what_it_looks_like(tmp_path, written, value):
    found = read(text(tmp_path, f"a: {written}\n")).data["a"]
    assert found == value
    assert type(found) is type(value)


def test_each_key_knows_its_line(tmp_path):
    file = read(text(tmp_path, "a:\n  b: 1\n  c:\n    - x\n    - d: 2\n"))
    assert file.line(("a", "b")) == (2, 2)
    assert file.line(("a", "c", 1, "d")) == (4, 5)
    # What is not there is told at the deepest part that is.
    assert file.line(("a", "c", 7)) == (2, 3)
    assert file.line(("nothing",)) == (0, 1)
    assert dotted(("a", "c", 1, "d")) == "a.c[1].d"


def test_anchors_and_merge_keys_work_and_may_be_overridden(tmp_path):
    file = read(text(tmp_path, "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: *a\n"))
    assert file.data == {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}, "c": {"x": 1, "y": 2}}


def test_an_empty_file_is_an_empty_configuration(tmp_path):
    assert read(text(tmp_path, "# nothing yet\n")).data == {}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("a: 1\nb: 2\na: 3\n", "file.yaml:3: a: stands twice"),
        ("a:\n  x: 1\n  x: 2\n", "file.yaml:3: a.x: stands twice"),
        ("a:\n\tb: 1\n", "file.yaml:2: not YAML"),
        ("a: [1, 2\n", "not YAML"),
        ("a: 'x\n", "not YAML"),
        ("a: *nowhere\n", "file.yaml:1: not YAML: found undefined alias"),
        ("a: &a [*a]\n", "an anchor contains itself"),
        ("a: &a\n  b: *a\n", "an anchor contains itself"),
        ("- a\n", "is a list, not a mapping of sections"),
        ("just words\n", "is text, not a mapping of sections"),
        ("42\n", "is a number, not a mapping of sections"),
        ("a: \x01\n", "not allowed"),
        ("a: 1\n---\nb: 2\n", "not YAML"),
        ("names: {no: negative}\n", "file.yaml:1: names.no: YAML reads this key as no text; put it in quotes"),
        ("names: {010: x}\n", "names.010: YAML reads this key as no text"),
        ("names: {1.5: x}\n", "put it in quotes"),
        ("? [a, b]\n: c\n", "put it in quotes"),
        ("a: !!int x\n", "leave it out"),
        ("a: !!timestamp x\n", "a tag such as"),
        ("a: !!python/object/apply:os.system ['true']\n", "tags that make objects are not allowed"),
        ("a: !mine 3\n", "tags that make objects are not allowed"),
        ("a: " + "[" * 60 + "]" * 60, "nested too deeply"),
        ("a: " + "[" * 5000 + "]" * 5000, "nest"),  # the C parser has a limit of its own
    ],
)
def test_what_can_t_be_read_is_told_with_its_line(tmp_path, content, told):
    found = problem(text(tmp_path, content))
    assert told in found
    assert found.startswith(str(tmp_path / "file.yaml"))


def test_python_objects_are_not_made(tmp_path):
    made = tmp_path / "made"
    problem(
        text(tmp_path, f"a: !!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path ['{made}']]")
    )
    assert not made.exists()


def test_a_byte_that_is_not_utf8_is_told_with_line_and_value(tmp_path):
    assert "file.yaml:2: byte 0xe9 is not UTF-8" in problem(text(tmp_path, b"a: 1\nb: caf\xe9\n"))


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path):
    assert "no such file" in problem(tmp_path / "absent.yaml")
    assert "is a folder" in problem(tmp_path)


def test_a_few_lines_can_t_unfold_to_billions_of_values(tmp_path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    assert f"more than {MOST_VALUES:,} values" in problem(text(tmp_path, "\n".join(lines)))


def test_all_double_keys_of_a_file_are_told_at_once(tmp_path):
    found = problem(text(tmp_path, "a: 1\na: 2\nb: {c: 1, c: 2}\n")).splitlines()
    assert len(found) == 2
