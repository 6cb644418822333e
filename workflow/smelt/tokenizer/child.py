"""A call in a process of its own: trainers are deaf to signals for minutes, and a thread that is still in one when the interpreter
ends aborts the process."""

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from smelt.plan.errors import DataError


def in_child(function: Callable[..., Any], *arguments: Any) -> Any:
    """What `function`, of a module, returns or raises. Raises DataError if the process is ended from outside."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_send, args=(sender, function, arguments), daemon=True)
    child.start()
    sender.close()
    try:
        answer = receiver.recv()
    except EOFError:
        child.join()
        raise DataError(
            f"the training of the tokenizer was ended from outside (exit code {child.exitcode}), most likely for want of memory: "
            "lower max_train_bytes or give the stage more memory"
        ) from None
    finally:
        child.kill()
        child.join()
    if isinstance(answer, Exception):
        raise answer
    return answer


def _send(sender: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        answer = function(*arguments)
    except Exception as error:  # noqa: BLE001 - raised again in the parent
        answer = error
    sender.send(answer)
