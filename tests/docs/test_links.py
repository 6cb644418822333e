"""What the documents name exists: files, headings, make targets, commands, settings."""

import contextlib
import io
import re
from pathlib import Path

import pytest
import yaml

from smelt import cli
from smelt.plan.config import Configuration

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), ROOT / "config" / "README.md", *(ROOT / "docs").rglob("*.md")])
INDEX_HOSTS = ("py" + "pi.org", "python" + "hosted.org")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|<img[^>]*src=\"([^\"]+)\"")


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def without_code(text: str) -> str:
    return re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)


def anchors(page: Path) -> set[str]:
    """As code hosts make them of headings: lower case, punctuation out, spaces to hyphens."""
    found = set()
    for heading in re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE):
        found.add(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_a_link_leads_somewhere(page):
    broken = []
    for match in LINK.findall(without_code(page.read_text(encoding="utf-8"))):
        link = match[0] or match[1]
        if re.match(r"https?://|mailto:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_no_page_ties_a_reader_to_one_package_index(page):
    text = page.read_text(encoding="utf-8")
    assert not [host for host in INDEX_HOSTS if host in text]


def targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def is_command(name: str) -> bool:
    """Whether smelt has this subcommand: its help exits with 0, a usage error with 2."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            cli.main([name, "--help"])
        except SystemExit as left:
            return left.code == 0
    return False


def in_code(page: Path) -> list[str]:
    """Lines of code blocks and code spans."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"```(?:sh|text)?\n(.*?)```", text, re.DOTALL)
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return [line.strip() for block in blocks for line in block.splitlines()] + spans


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_the_commands_that_a_page_tells_one_to_type_exist(page):
    unknown = []
    for line in in_code(page):
        for command in re.split(r"&&|;|#", line):
            words = command.split()
            if (
                len(words) > 1
                and words[0] == "make"
                and re.fullmatch(r"[a-z]+", words[1])
                and words[1] not in targets()
            ):
                unknown.append(command)
            if (
                len(words) > 1
                and words[0] == "smelt"
                and re.fullmatch(r"[a-z]+", words[1])
                and not is_command(words[1])
            ):
                unknown.append(command)
            if "--profile" in words and not (ROOT / words[words.index("--profile") + 1] / "config.yaml").is_file():
                unknown.append(command)
    assert not unknown


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=page_id)
def test_the_paths_that_a_page_names_are_there(page):
    tops = ("workflow/", "tests/", "envs/", "profiles/", "docs/", "benchmarks/", "plan/settings/")
    missing = []
    for span in re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)):
        if span.startswith(tops) and not re.search(r"[<*…\s]", span):
            path = ROOT / span if not span.startswith("plan/") else ROOT / "workflow" / "smelt" / span
            if not path.exists():
                missing.append(span)
    assert not missing


def test_every_stage_has_a_page_that_the_readme_leads_to():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for stage in cli.STAGES:
        assert (ROOT / "docs" / f"{stage}.md").is_file()
        assert f"docs/{stage}.md" in readme


REFERRED = {
    "corpora": {"letters": {"sources": [{"kind": "file", "path": "letters.txt"}], "format": "text"}},
    "tokenizers": {"en-2k": {}},
    "models": {"tiny": {}},
    "pretraining": {"short": {}},
    "tasks": {
        "reviews": {
            "kind": "classification",
            "sources": [{"kind": "file", "path": "reviews.tsv"}],
            "format": "table",
            "label": {"by": "column", "column": "label"},
        },
        "talk": {"kind": "dialogue", "sources": [{"kind": "file", "path": "talk.jsonl"}], "format": "messages"},
    },
}
"""Blocks of other pages that a page may refer to."""


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_the_settings_in_a_page_are_valid(page, tmp_path):
    """All YAML of a page, one block after the other as layers."""
    texts = re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    own = {(section, name) for text in texts for section, blocks in yaml.safe_load(text).items() for name in blocks}
    referred = {
        section: {name: block for name, block in blocks.items() if (section, name) not in own}
        for section, blocks in REFERRED.items()
    }
    files = []
    for number, text in enumerate([yaml.safe_dump(referred), *texts]):
        files.append(tmp_path / f"{number}.yaml")
        files[-1].write_text(text, encoding="utf-8")
    Configuration.load(files)
