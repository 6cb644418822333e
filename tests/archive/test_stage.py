"""The archive: equal content, equal bytes; what belongs in is in, what is nobody's business is not."""

import hashlib
import io
import json
import subprocess
import tarfile
import tracemalloc
from pathlib import Path

import pytest
import yaml
import zstandard

from made_experiment import HOST
from smelt.archive import bundle
from smelt.archive.code import code
from smelt.archive.entry import Entry
from smelt.archive.verify import verify
from smelt.plan.errors import DataError
from smelt.plan.manifest import Manifest, to_json


def unpacked(path: Path) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(unpacked(path))) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}


def extract(path: Path, folder: Path) -> Path:
    """With the tar of the system, as a person would."""
    folder.mkdir()
    (folder / "plain.tar").write_bytes(unpacked(path))
    subprocess.run(["tar", "-xf", "plain.tar"], cwd=folder, check=True)
    return folder / "quickstart"


def test_equal_content_gives_equal_bytes_in_another_folder_and_order(archived, tmp_path):
    copies = [archived.copied(tmp_path / name, seed) for seed, name in enumerate(("b", "deep/er"))]
    first = archived.run()
    for copy in copies:
        again = archived.run(copy)
        assert again.path.read_bytes() == first.path.read_bytes()
        for name in ("quickstart.tar.zst", "SHA256SUMS"):
            assert again.file(name).read_bytes() == first.file(name).read_bytes()


def test_names_are_sorted_and_times_owners_and_modes_are_fixed(packed):
    with tarfile.open(fileobj=io.BytesIO(unpacked(packed))) as tar:
        found = tar.getmembers()
    assert [member.name for member in found] == sorted(member.name for member in found)
    assert {(m.mtime, m.uid, m.gid, m.uname, m.gname) for m in found} == {(315_532_800, 0, 0, "", "")}
    assert {m.name for m in found if m.mode == 0o755} == {"quickstart/code/run.sh"}
    assert {m.mode for m in found} == {0o644, 0o755}


def test_the_system_s_own_tools_check_it(archived, tmp_path):
    manifest = archived.run()
    folder = extract(manifest.file("quickstart.tar.zst"), tmp_path / "out")
    inside = subprocess.run(["sha256sum", "--strict", "-c", "SHA256SUMS"], cwd=folder, capture_output=True, text=True)
    assert inside.returncode == 0, inside.stdout + inside.stderr
    listed = {line.split("  ", 1)[1] for line in (folder / "SHA256SUMS").read_text().splitlines()}
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert listed == there - {"SHA256SUMS"}
    beside = ["sha256sum", "--strict", "--ignore-missing", "-c", "SHA256SUMS"]
    assert subprocess.run(beside, cwd=manifest.directory, capture_output=True).returncode == 0


def test_it_holds_what_a_reader_needs_to_run_the_experiment_again(archived, packed):
    found = members(packed)
    names = {name.removeprefix("quickstart/") for name in found}
    assert {
        "README.md",
        "SHA256SUMS",
        "configuration.yaml",
        "report.html",
        "requirements.txt",
        "summary.json",
        "ro-crate-metadata.json",
    } <= names
    configuration = yaml.safe_load(found["quickstart/configuration.yaml"])
    assert configuration == {"corpora": {"wiki": {"sources": []}}, "experiments": {"quickstart": {"corpus": "wiki"}}}
    for node in [*archived.made.nodes.values(), archived.report]:
        assert {f"nodes/{node.stage}/{node.id}/{name}.json" for name in ("manifest", "provenance")} <= names
        # but for the address with a login, the manifest is what it was
        if node.stage != "task":
            assert found[f"quickstart/nodes/{node.stage}/{node.id}/manifest.json"] == node.path.read_bytes()
    pretrain = archived.made.nodes["pretrain"]
    assert f"nodes/pretrain/{pretrain.id}/curve.jsonl" in names


def test_the_final_models_are_in_it_and_the_references_from_random_weights_are_not(archived, packed):
    found = members(packed)
    nodes = archived.made.nodes
    weights = {name for name in found if name.endswith(".safetensors")}
    assert weights == {
        f"quickstart/nodes/convert/{nodes['convert'].id}/hf/model.safetensors",
        f"quickstart/nodes/finetune/{nodes['sentiment'].id}/model/model.safetensors",
        f"quickstart/nodes/finetune/{nodes['dialogue'].id}/model/adapter_model.safetensors",
    }
    kept = found[f"quickstart/nodes/convert/{nodes['convert'].id}/hf/model.safetensors"]
    assert kept == nodes["convert"].file("hf/model.safetensors").read_bytes()


def test_no_text_of_the_corpus_goes_along(packed):
    assert not [name for name in members(packed) if name.endswith((".zst", ".lmdb", "samples.json"))]


def test_model_and_code_can_be_left_out(archived):
    names = members(archived.run(include_model=False, include_code=False).file("quickstart.tar.zst"))
    assert not [name for name in names if name.endswith(".safetensors") or "/code/" in name]
    assert "code" not in names["quickstart/README.md"].decode()
    assert verify(archived.run(include_model=False, include_code=False).file("quickstart.tar.zst")) == []


def test_a_higher_level_packs_smaller_and_holds_the_same(archived):
    low, high = (archived.run(compression_level=level).file("quickstart.tar.zst") for level in (1, 19))
    assert high.stat().st_size < low.stat().st_size
    assert members(high) == members(low)


def test_code_is_what_git_tracks_as_it_is_in_the_working_tree(packed, archived):
    found = {
        name.removeprefix("quickstart/code/"): content for name, content in members(packed).items() if "/code/" in name
    }
    assert set(found) == {
        ".gitignore",
        "envs/requirements.txt",
        "link.py",
        "run.sh",
        "workflow/smelt/a.py",
        "workflow/smelt/new.py",
        "名 前.txt",
    }
    assert found["workflow/smelt/a.py"] == found["link.py"] == b"edited since\n"


def test_links_out_of_the_checkout_are_left_out_and_named(archived):
    assert archived.run().facts["code_left_out"] == ["folder", "outside"]


def test_a_copy_without_git_is_archived_without_what_runs_leave_behind(tmp_path):
    for name in (
        "workflow/smelt/a.py",
        "workflow/smelt/__pycache__/a.pyc",
        "config/config.yaml",
        ".env",
        "results/x.json",
        "workflow/.hidden",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert [entry.name for entry in code(tmp_path).entries] == ["code/config/config.yaml", "code/workflow/smelt/a.py"]


def test_a_checkout_within_another_checkout_is_not_taken_for_it(checkout):
    inner = checkout / "workflow"
    assert code(inner).entries == []  # nothing of a checkout's own names is in there


def test_hosts_logins_keys_and_own_paths_stay_out(archived, results, monkeypatch, tmp_path):
    home = tmp_path / "home" / "ada"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("HF_TOKEN", "hf_very_secret_token")
    task = archived.made.nodes["chat"]
    working = results.root.parent
    task.data["settings"]["sources"] = [
        {"kind": "file", "path": f"{home}/talks/*.yml", "licence": "BSD", "provenance": ""},
        {"kind": "file", "path": f"{working}/texts", "licence": "BSD", "provenance": ""},
        {
            "kind": "url",
            "url": "https://ada:pa55@example.org/a?access_token=t0k3n&x=1",
            "licence": "BSD",
            "provenance": "",
        },
    ]
    task.path.write_text(to_json(task.data), encoding="utf-8")
    found = members(archived.run().file("quickstart.tar.zst"))
    everything = b"\n".join(found.values())
    for secret in (HOST, str(home), str(working), "pa55", "t0k3n", "me:secret", "hf_very_secret_token", "TOKEN=secret"):
        assert secret.encode() not in everything, secret
    kept = json.loads(found[f"quickstart/nodes/task/{task.id}/manifest.json"])["settings"]["sources"]
    assert [source.get("path") or source["url"] for source in kept] == [
        "~/talks/*.yml",
        "./texts",
        "https://example.org/a?access_token=(removed)&x=1",
    ]
    assert json.loads(found[f"quickstart/nodes/task/{task.id}/provenance.json"])["host"] == "(removed)"


def test_a_model_that_changed_behind_its_manifest_is_refused_and_named(archived):
    weights = archived.made.nodes["convert"].file("hf/model.safetensors")
    content = bytearray(weights.read_bytes())
    content[5000] ^= 1
    weights.write_bytes(content)
    with pytest.raises(DataError, match=r"hf/model\.safetensors: its content differs"):
        archived.run()
    assert not list((archived.results.root / "archive").glob("*/manifest.json"))


@pytest.mark.parametrize("name", ["../x", "a/../b", "/etc/x", "a//b", "a\\b", "a\nb", "", "a/./b", "a\0b"])
def test_a_name_that_is_not_safe_to_unpack_is_not_packed(name):
    with pytest.raises(DataError, match="rename the file"):
        Entry.of_text(name, "x")


@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden"])
def test_an_experiment_s_name_can_not_lead_out_of_the_folder(results, archived, name):
    given = {"experiment": name, "archive": {}, "configuration": {}}
    with pytest.raises(DataError, match="rename the experiment"):
        results.run("archive", "x", given, report=archived.report, nodes=[])


def test_memory_does_not_grow_with_the_model(tmp_path):
    big = tmp_path / "model.safetensors"
    with big.open("wb") as file:
        file.truncate(192 * 2**20)
    entry = Entry.of_path("model.safetensors", big)
    table = Entry.of_text("SHA256SUMS", f"{entry.sha256}  model.safetensors\n")
    tracemalloc.start()
    try:
        bundle.write(tmp_path / "a.tar.zst", "top", [entry, table], 3, lambda count: None)
        assert verify(tmp_path / "a.tar.zst") == []
        assert tracemalloc.get_traced_memory()[1] < 96 * 2**20  # half of it
    finally:
        tracemalloc.stop()


def test_the_crate_is_read_by_another_implementation(archived, packed, tmp_path):
    from rocrate.rocrate import ROCrate

    folder = extract(packed, tmp_path / "out")
    crate = ROCrate(folder)
    assert crate.root_dataset["name"] == "quickstart"
    assert "MIT" in crate.root_dataset["license"]["description"]
    for part in crate.root_dataset["hasPart"]:
        assert (folder / part.id).exists(), part.id
    actions = {action.id: action for action in crate.get_by_type("CreateAction")}
    nodes = [*archived.made.nodes.values(), archived.report]
    assert set(actions) == {f"#{node.stage}/{node.id}" for node in nodes}
    pretrain = actions[f"#pretrain/{archived.made.nodes['pretrain'].id}"]
    assert {each.id for each in pretrain["object"]} == {
        f"nodes/shards/{archived.made.nodes['shards'].id}/", f"nodes/tokenizer/{archived.made.nodes['tokenizer'].id}/",
    }  # fmt: skip
    assert pretrain["startTime"] == "2026-11-30T12:03:00+00:00"
    assert pretrain["endTime"] == "2026-11-30T12:04:25+00:00"  # 84.9 s later


def test_the_table_beside_lists_the_archive_itself(archived):
    manifest: Manifest = archived.run()
    first = manifest.file("SHA256SUMS").read_text().splitlines()
    digest = hashlib.sha256(manifest.file("quickstart.tar.zst").read_bytes()).hexdigest()
    assert f"{digest}  quickstart.tar.zst" in first
