"""`smelt verify`: whatever was altered is found and named, and a hostile archive does nothing."""

import io
import random
import tarfile
from pathlib import Path

import pytest
import zstandard

from smelt.archive.verify import main, verify
from smelt.plan.view import make as make_view
from smelt.plan.view import spec_text


def repacked(path: Path, target: Path, change) -> Path:
    """The archive with its members changed: `change` takes and gives a list of (TarInfo, content)."""
    plain = zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        found = [(member, tar.extractfile(member).read()) for member in tar]
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member, content in change(found):
            member.size = len(content) if member.isreg() else 0
            tar.addfile(member, io.BytesIO(content))
    target.write_bytes(zstandard.ZstdCompressor().compress(out.getvalue()))
    return target


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


@pytest.fixture
def small(archived) -> Path:
    return archived.run(include_code=False).file("quickstart.tar.zst")


def test_an_archive_as_it_was_made_has_no_problems(packed):
    assert verify(packed) == []


def test_a_flipped_byte_in_a_file_is_found_and_the_file_named(small, tmp_path, archived):
    weights = f"nodes/convert/{archived.made.nodes['convert'].id}/hf/model.safetensors"

    def flip(found):
        return [
            (about, content[:9] + bytes([content[9] ^ 1]) + content[10:] if about.name.endswith(weights) else content)
            for about, content in found
        ]

    target = repacked(small, tmp_path / "x.tar.zst", flip)
    assert verify(target) == [f"{target}: {weights}: content differs from its sha256"]


def test_a_missing_and_an_added_file_are_found_and_named(small, tmp_path):
    def change(found):
        kept = [(about, content) for about, content in found if not about.name.endswith("summary.json")]
        return [*kept, (member("quickstart/virus.sh"), b"x")]

    target = repacked(small, tmp_path / "x.tar.zst", change)
    assert verify(target) == [
        f"{target}: summary.json: listed in SHA256SUMS, and missing",
        f"{target}: virus.sh: is not listed in SHA256SUMS",
    ]


def test_a_file_that_is_in_it_twice_is_found(small, tmp_path):
    target = repacked(small, tmp_path / "x.tar.zst", lambda found: [*found, (member("quickstart/README.md"), b"other")])
    assert verify(target) == [f"{target}: quickstart/README.md: is in the archive twice"]


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (member("../../outside.txt"), "leads out"),
        (member("/absolute.txt"), "leads out"),
        (member("quickstart/../../outside.txt"), "leads out"),
        (member("quickstart\\..\\outside.txt"), "leads out"),
        (member("quickstart/link", tarfile.SYMTYPE, "/etc/passwd"), "no regular file"),
        (member("quickstart/hard", tarfile.LNKTYPE, "quickstart/README.md"), "no regular file"),
        (member("quickstart/device", tarfile.CHRTYPE), "no regular file"),
        (member("quickstart/pipe", tarfile.FIFOTYPE), "no regular file"),
        (member("quickstart/folder", tarfile.DIRTYPE), "no regular file"),
    ],
)
def test_a_member_that_could_do_harm_is_refused_and_nothing_is_written(small, tmp_path, bad, why):
    target = repacked(small, tmp_path / "x.tar.zst", lambda found: [*found, (bad, b"x" if bad.isreg() else b"")])
    before = sorted(tmp_path.rglob("*"))
    (problem,) = verify(target)
    assert repr(bad.name) in problem and "refused" in problem and why in problem
    assert sorted(tmp_path.rglob("*")) == before


def test_an_archive_cut_off_anywhere_is_found(small, tmp_path):
    content = small.read_bytes()
    target = tmp_path / "x.tar.zst"
    for length in sorted(random.Random(1).sample(range(4, len(content)), 60)) + [
        len(content) - n for n in (4, 3, 2, 1)
    ]:
        target.write_bytes(content[:length])
        (problem,) = verify(target)
        assert "cut off or damaged" in problem, length


def test_a_flipped_bit_anywhere_in_the_packed_file_is_found(small, tmp_path):
    content = small.read_bytes()
    (tmp_path / "SHA256SUMS").write_bytes(small.with_name("SHA256SUMS").read_bytes())
    target = tmp_path / small.name
    rng = random.Random(2)
    for place in [*range(12), *rng.sample(range(12, len(content)), 80), *range(len(content) - 6, len(content))]:
        flipped = bytearray(content)
        flipped[place] ^= 1 << rng.randrange(8)
        target.write_bytes(flipped)
        assert verify(target), place


def test_bytes_after_the_end_are_found(small, tmp_path):
    target = tmp_path / "x.tar.zst"
    target.write_bytes(small.read_bytes() + b"more")
    (problem,) = verify(target)
    assert "bytes after the end" in problem


def test_a_table_beside_the_archive_is_held_against_it(small, tmp_path):
    target = tmp_path / small.name
    target.write_bytes(small.read_bytes())
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  {small.name}\n")
    (problem,) = verify(target)
    assert problem.endswith(f"differs from its sha256 in {tmp_path / 'SHA256SUMS'}")


@pytest.mark.parametrize(
    "change",
    [
        lambda found: [],
        lambda found: [each for each in found if not each[0].name.endswith("SHA256SUMS")],
        lambda found: [*found, (member("other/SHA256SUMS"), b"")],
        lambda found: [(member("SHA256SUMS"), b"")],
    ],
)
def test_what_is_no_archive_of_smelt_is_said_to_be_none(small, tmp_path, change):
    target = repacked(small, tmp_path / "x.tar.zst", change)
    assert any("not an archive of smelt" in problem for problem in verify(target))


def test_a_broken_line_of_the_table_is_named(small, tmp_path):
    def change(found):
        return [(a, c + b"nonsense\n" if a.name.endswith("/SHA256SUMS") else c) for a, c in found]

    target = repacked(small, tmp_path / "x.tar.zst", change)
    (problem,) = verify(target)
    assert "SHA256SUMS, line" in problem and "nonsense" in problem


def test_a_node_is_checked_by_folder_and_by_manifest(archived):
    node = archived.made.nodes["convert"]
    assert verify(node.directory) == verify(node.path) == []
    weights = node.file("hf/model.safetensors")
    content = bytearray(weights.read_bytes())
    content[100] ^= 1
    weights.write_bytes(content)
    (problem,) = verify(node.path)
    assert problem.startswith(f"{weights}: content differs from the sha256 in manifest.json; delete {node.path}")
    assert verify(node.directory) == [problem]
    weights.unlink()
    assert "missing" in verify(node.path)[0]


def test_a_node_made_from_another_upstream_than_the_one_that_is_here_is_found(archived):
    corpus, tokenizer = archived.made.nodes["corpus"], archived.made.nodes["tokenizer"]
    corpus.path.write_text(corpus.path.read_text().replace("CC BY-SA 3.0", "CC0"))
    (problem,) = verify(tokenizer.directory)
    assert f"made from another corpus/{corpus.id}" in problem


def test_a_view_is_checked_with_all_its_nodes(archived, capsys):
    archive = archived.run()
    nodes = [f"{m.stage}/{m.id}" for m in [*archived.made.nodes.values(), archived.report, archive]]
    view = archived.results.root / "experiments" / "quickstart" / "experiment.json"
    make_view(spec_text("quickstart", sorted(nodes)), view)
    assert verify(view.parent) == []
    card = archived.made.nodes["corpus"].file("card.json")
    card.write_text("[]\n")
    (problem,) = verify(view.parent)
    assert "card.json: content differs" in problem
    archive.file("SHA256SUMS").unlink()
    assert len(verify(view.parent)) == 2


def test_the_command_says_for_each_path_what_it_found_and_exits_by_it(small, archived, tmp_path, capsys):
    assert main([small, archived.made.nodes["corpus"].directory]) == 0
    assert capsys.readouterr().out.count("all as it was") == 2
    target = tmp_path / "x.tar.zst"
    target.write_bytes(small.read_bytes()[:-20])
    assert main([small, target]) == 1
    said = capsys.readouterr()
    assert f"{target}: 1 problem" in said.out and "cut off or damaged" in said.err


@pytest.mark.parametrize(("name", "content"), [("nothing", None), ("a.txt", b"hello"), ("manifest.json", b"{"), ("experiment.json", b"[]"), ("empty", b"")])  # fmt: skip
def test_what_can_not_be_verified_is_a_problem_and_no_crash(tmp_path, name, content):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    (problem,) = verify(path)
    assert str(path) in problem
    assert verify(tmp_path / "folder-that-is-not-there") != []
