"""JSON lines with `messages`, a list of objects with `role` and `content`, as chat templates take them."""

from collections.abc import Iterator

from smelt.data.archives import Entry
from smelt.data.formats import jsonl
from smelt.plan.errors import DataError
from smelt.task.conversations.conversation import Conversation, Turn

ROLES = ("user", "assistant")


def read(entry: Entry) -> Iterator[Conversation]:
    """Each line's conversation. One that the assistant opens begins with its second message."""
    for record in jsonl.read(entry, None):
        messages = record.fields.get("messages")
        if not isinstance(messages, list):
            raise DataError(f"{record.place}: has no list `messages`; check `format`")
        turns = []
        for message in messages:
            role, content = (message.get("role"), message.get("content")) if isinstance(message, dict) else (None, None)
            if role not in ROLES or not isinstance(content, str):
                raise DataError(
                    f"{record.place}: {str(message)[:60]!r} is no message with a role of {' or '.join(ROLES)} and a text as content"
                )
            turns.append(Turn(role, content))
        yield Conversation(record.place, turns[1:] if turns and turns[0].speaker == "assistant" else turns)
