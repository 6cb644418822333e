"""The YAML of the chatterbot_corpus release: `conversations:`, lists of what two speakers say in turn."""

from collections.abc import Iterator
from typing import Any

import yaml

from smelt.data.archives import Entry
from smelt.data.lines import read_text
from smelt.plan.errors import DataError
from smelt.task.conversations.conversation import Conversation, Turn

LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""Makes text of every scalar, and nothing else: the safe loader would turn the answers `yes` and `2` into a truth value and a number."""


def read(entry: Entry) -> Iterator[Conversation]:
    """Each conversation, numbered in the order of the file."""
    try:
        value = yaml.load(read_text(entry.stream, entry.place, entry.encoding), Loader=LOADER)  # noqa: S506 - see LOADER
    except yaml.YAMLError as error:
        raise DataError(
            f"{entry.place}: not YAML ({' '.join(str(error).split())}); mend the file, or check `format`"
        ) from None
    conversations = value.get("conversations") if isinstance(value, dict) else None
    if not isinstance(conversations, list):
        raise DataError(f"{entry.place}: has no list `conversations`; check `format`")
    for number, said in enumerate(conversations, 1):
        texts = [_text(each) for each in said] if isinstance(said, list) else [None]
        turns = [Turn(str(turn % 2), text) for turn, text in enumerate(texts) if text is not None]
        # The release has a few entries whose indentation went wrong.
        yield Conversation(
            f"{entry.name}#{number}",
            turns,
            None if len(turns) == len(texts) else "conversation that is no list of texts",
        )


def _text(said: Any) -> str | None:
    """What is said, or None. An unquoted colon makes YAML take a sentence for a mapping; it is put together again."""
    if isinstance(said, dict) and len(said) == 1:
        ((before, after),) = said.items()
        if isinstance(before, str) and isinstance(after, str):
            return f"{before}: {after}".strip()
    return said if isinstance(said, str) else None
