"""The JSON of the chitchat_dataset release: conversation id → {"messages": [turn, …]}, a turn being a list of messages of one sender.

Ids and times are left behind: of the senders only who differs from whom is kept, and that goes into no result.
"""

from collections.abc import Iterator

from smelt.data.archives import Entry
from smelt.data.formats.json_list import load
from smelt.plan.errors import DataError
from smelt.task.conversations.conversation import Conversation, Turn


def read(entry: Entry) -> Iterator[Conversation]:
    """Each conversation, numbered in the order of the file."""
    value = load(entry)
    if not isinstance(value, dict):
        raise DataError(
            f"{entry.place}: is a JSON {type(value).__name__}, not the object of conversations of chitchat_dataset; check `format`"
        )
    for number, conversation in enumerate(value.values(), 1):
        try:
            turns = [Turn(message["sender"], message["text"]) for turn in conversation["messages"] for message in turn]
        except (TypeError, KeyError) as error:
            raise DataError(
                f"{entry.place}#{number}: no conversation of chitchat_dataset ({error!r} is amiss); check `format`"
            ) from None
        if not all(isinstance(part, str) for turn in turns for part in turn):
            raise DataError(
                f"{entry.place}#{number}: a sender or a message is no text; mend the file, or check `format`"
            )
        yield Conversation(f"{entry.name}#{number}", turns)
